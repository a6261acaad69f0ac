// The pictures to send: camera frames as small JPEGs, for several answers a second, and picture files
// unchanged, so that any other program gets the same answer.

const SIDE = 256;
const THUMBNAIL_SIDE = 16;
// Thumbnails that differ by less than this (of 255, on average) show the same.
const SAME_BELOW = 3;

const canvas = document.createElement("canvas");
canvas.width = canvas.height = SIDE;
const small = document.createElement("canvas");
small.width = small.height = THUMBNAIL_SIDE;

export async function start(video) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("This browser gives the camera only to pages over HTTPS or on the same machine.");
  }
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { facingMode: "environment", width: { ideal: 640 }, height: { ideal: 480 } },
  });
  video.srcObject = stream;
  await video.play();
  return () => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
}

const CAMERA = "camera";
const files = new WeakMap(); // of image elements

export const sourceOf = (file) => file.webkitRelativePath || file.name || "page";

// Shows a file; returns whether this browser can. If not, the service may still be able to read it.
export async function showFile(still, file) {
  if (still.src) URL.revokeObjectURL(still.src);
  files.set(still, { image: file, source: sourceOf(file) });
  still.src = URL.createObjectURL(file);
  try {
    await still.decode();
    return true;
  } catch {
    return false;
  }
}

const blobOf = async (drawn) => {
  const image = await new Promise((resolve) => drawn.toBlob(resolve, "image/jpeg", 0.9));
  return { image, source: CAMERA };
};

// The bytes to send for a source: its file, or the centre square of a video as a JPEG.
export async function frame(source) {
  const width = source.videoWidth || source.naturalWidth;
  const height = source.videoHeight || source.naturalHeight;
  if (width && height) {
    const side = Math.min(width, height);
    const pen = canvas.getContext("2d", { willReadFrequently: false });
    pen.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0, SIDE, SIDE);
  }
  if (files.has(source)) return files.get(source);
  return width && height ? blobOf(canvas) : null;
}

const LONG = 640;
const whole = document.createElement("canvas");

// As frame, but of a video the whole frame, its long side at most 640 pixels.
export async function wholeFrame(source) {
  if (files.has(source)) return files.get(source);
  const { videoWidth: width, videoHeight: height } = source;
  if (!width || !height) return null;
  const shrink = Math.min(1, LONG / Math.max(width, height));
  whole.width = Math.round(width * shrink);
  whole.height = Math.round(height * shrink);
  whole.getContext("2d").drawImage(source, 0, 0, whole.width, whole.height);
  return blobOf(whole);
}

// The pixels of a tiny thumbnail of the last frame, for comparison.
export function lastThumbnail() {
  const pen = small.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0, THUMBNAIL_SIDE, THUMBNAIL_SIDE);
  return pen.getImageData(0, 0, THUMBNAIL_SIDE, THUMBNAIL_SIDE).data;
}

export function lookSame(one, other) {
  if (!one || !other) return false;
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += Math.abs(one[i] - other[i]);
  // Every fourth value is opacity, which never differs.
  return sum / (one.length * 0.75) < SAME_BELOW;
}
