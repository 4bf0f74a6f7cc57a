// Search in pages opened from the file system: browsers start no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.documentElement.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.#dispatch(data)); // asynchronous, as in a worker
      this.#loaded = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, location);
        script.addEventListener("load", done);
        inside.document.body.append(script);
      });
    }

    async postMessage(given) {
      const data = structuredClone(given); // a worker receives a copy
      await this.#loaded;
      const inside = this.#frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    #dispatch(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
