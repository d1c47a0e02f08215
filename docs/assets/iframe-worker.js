// Pages opened from disk may start no worker. A hidden frame with the worker's script stands in for it, for the search.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      const own = new URL(address, location.href);
      const load = (source, base) =>
        new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          script.src = new URL(source, base).href;
          script.onload = done;
          script.onerror = () => failed(new Error(source));
          inner.document.head.append(script);
        });
      inner.importScripts = (...sources) => sources.reduce((before, each) => before.then(() => load(each, own)), this.ready);
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.ready = Promise.resolve();
      this.loaded = load(address, location.href);
    }
    postMessage(data) {
      this.loaded.then(() => {
        const event = new MessageEvent("message", { data });
        const inner = this.frame.contentWindow;
        inner.dispatchEvent(event);
        if (inner.onmessage) inner.onmessage(event);
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
