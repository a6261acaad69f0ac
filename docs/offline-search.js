/* Browsers start no worker from a file. Where the pages are read from a folder, a hidden frame does
   the worker's work: it loads the same script, and messages go to and fro as events. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc = `<script>
        function postMessage(data) { parent.dispatchEvent(new CustomEvent("worker", { detail: data })); }
        function importScripts(...scripts) {
          return Promise.all(scripts.map((src) => new Promise((done) => {
            const element = Object.assign(document.createElement("script"), { src, onload: done });
            document.head.append(element);
          })));
        }
      <\/script><script src="${script}"><\/script>`;
      frame.addEventListener("load", () => {
        this.frame = frame.contentWindow;
        this.waiting.forEach((data) => this.postMessage(data));
      });
      addEventListener("worker", ({ detail }) => {
        const event = new MessageEvent("message", { data: detail });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      });
      document.body.append(frame);
    }
    postMessage(data) {
      if (!this.frame) this.waiting.push(data);
      else this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
