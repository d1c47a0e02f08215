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
// The theme searches each word of a query as the beginning of words. Words of one or two letters are whole words here, and
// words that say nothing are left out, unless the query has no others.
{
  const common = new Set(["a", "an", "and", "for", "how", "in", "my", "of", "the", "this", "to", "which", "without"]);
  const bare = (word) => word.replace(/\*$/, "");
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...others) {
    if (message?.type !== 2 || typeof message.data !== "string") return post.call(this, message, ...others);
    const words = message.data.trim().split(/\s+/);
    const kept = words.filter((word) => !common.has(bare(word).toLowerCase()));
    const said = (kept.length ? kept : words).map((word) => (/^[a-z]{1,2}\*$/i.test(word) ? bare(word) : word));
    return post.call(this, { ...message, data: said.join(" ") }, ...others);
  };
}
