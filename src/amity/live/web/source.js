// Where everything comes from: a stream that goes on where it was, and details on request.
"use strict";
var amity = globalThis.amity || (globalThis.amity = {});

amity.Source = class {
  constructor(heard, said) {
    this.token = new URLSearchParams(location.search).get("token") || "";
    Object.assign(this, { heard, said });
    this.place = "";
    this.pause = 500;
    this.ended = false;
    this.open();
  }

  open() {
    const query = new URLSearchParams({ token: this.token });
    if (this.place) query.set("from", this.place);
    const stream = new EventSource(`/api/stream?${query}`);
    stream.addEventListener("hello", (event) => {
      this.pause = 500;
      this.ended = false;
      this.said("live", JSON.parse(event.data));
    });
    stream.addEventListener("batch", (event) => {
      this.place = event.lastEventId;
      this.heard(event.data.split("\n").map((line) => JSON.parse(line)));
    });
    stream.addEventListener("bye", (event) => {
      this.ended = true;
      this.said("ended", JSON.parse(event.data));
    });
    stream.onerror = async () => {  // the browser's own tries give up for good on some errors
      stream.close();
      const why = await this.why();
      if (!this.ended || why === "stranger") this.said(why, {});
      setTimeout(() => this.open(), this.pause);
      this.pause = Math.min(3000, this.pause * 1.5);
    };
  }

  // Nobody answers, or somebody else does.
  async why() {
    try {
      const answer = await fetch(`/?${new URLSearchParams({ token: this.token })}`);
      return answer.status === 403 ? "stranger" : "lost";
    } catch {
      return "lost";
    }
  }

  async get(path, asked) {
    try {
      const answer = await fetch(`/api/${path}?${new URLSearchParams({ ...asked, token: this.token })}`);
      return answer.ok ? await answer.json() : null;
    } catch {
      return null;
    }
  }

  link(path, asked) {
    return `/api/${path}?${new URLSearchParams({ ...asked, token: this.token })}`;
  }
};
