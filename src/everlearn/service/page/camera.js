// The camera: frames as JPEG, small enough to be sent several times a second.

const SIDE = 256;
const GLANCE = 16;
// Frames whose glances differ by less than this (of 255, on average) show the same.
const SAME = 3;

const canvas = document.createElement("canvas");
canvas.width = canvas.height = SIDE;
const small = document.createElement("canvas");
small.width = small.height = GLANCE;

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

// The middle square of a video or an image, as a JPEG.
export function frame(source) {
  const width = source.videoWidth || source.naturalWidth;
  const height = source.videoHeight || source.naturalHeight;
  if (!width || !height) return Promise.resolve(null);
  const side = Math.min(width, height);
  const pen = canvas.getContext("2d", { willReadFrequently: false });
  pen.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0, SIDE, SIDE);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));
}

const LONG = 640;
const whole = document.createElement("canvas");

// All of a video or an image, its long side 640 pixels, as a JPEG.
export function wholeFrame(source) {
  const width = source.videoWidth || source.naturalWidth;
  const height = source.videoHeight || source.naturalHeight;
  if (!width || !height) return Promise.resolve(null);
  const shrink = Math.min(1, LONG / Math.max(width, height));
  whole.width = Math.round(width * shrink);
  whole.height = Math.round(height * shrink);
  whole.getContext("2d").drawImage(source, 0, 0, whole.width, whole.height);
  return new Promise((resolve) => whole.toBlob(resolve, "image/jpeg", 0.9));
}

// What the last drawn frame looks like at a glance.
export function glance() {
  const pen = small.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0, GLANCE, GLANCE);
  return pen.getImageData(0, 0, GLANCE, GLANCE).data;
}

export function nearlySame(one, other) {
  if (!one || !other) return false;
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += Math.abs(one[i] - other[i]);
  // Every fourth value is opacity, which never differs.
  return sum / (one.length * 0.75) < SAME;
}
