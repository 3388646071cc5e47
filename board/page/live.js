// Keeps the page up to date: server-sent events, polling where these do not arrive, and attempts to come back after the
// connection is lost.
"use strict";

(() => {
  const kOpen_ms = 1500; // a proxy may hold events back; the page is filled without them then
  const kPoll_ms = 3000;
  const kQuiet_ms = 20000;
  const kRetry_ms = [1000, 2000, 4000, 8000, 15000];
  const kAnswer_ms = 20000;

  // kind: "denied" (401, 403), "answer" (the server has another error), "gone" (no answer).
  class LoadError extends Error {
    constructor(kind, message) {
      super(message);
      this.kind = kind;
    }
  }

  async function get(address) {
    let response;
    try {
      response = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(kAnswer_ms) });
    } catch (error) {
      throw new LoadError("gone", String(error.message || error));
    }
    let body = null;
    try {
      body = await response.json();
    } catch {
      if (response.ok) throw new LoadError("gone", "the answer is incomplete");
    }
    if (response.ok) return body;
    const words = String(body?.error || `HTTP ${response.status}`).replace(/\.$/, "");
    const denied = response.status === 401 || response.status === 403;
    // A proxy in front of a server that is gone answers 502 to 504.
    throw new LoadError(denied ? "denied" : response.status >= 502 ? "gone" : "answer", words);
  }

  class Live {
    // load(): gets everything. poll(): gets what changes, true if there was something new. handlers: {status, changed,
    // rewound} for the events. on_state({kind, since_ms, retry_ms, message}), kind "live", "polling", "lost", "denied",
    // "paused".
    constructor({ load, poll, handlers, on_state }) {
      Object.assign(this, { load, poll, handlers, on_state });
      this.run = 0; // counts connections, so that what belongs to an old one is dropped
      this.failures = 0;
      this.doubtful = false; // the last stream was open and brought nothing
      document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.start()));
    }

    start() {
      if (document.hidden) return;
      this.close();
      const run = this.run;
      if (typeof EventSource !== "function") {
        this.load_all(run, () => this.start_polling(run));
        return;
      }
      this.held = []; // events that arrive before everything is loaded
      this.source = new EventSource("api/live");
      const opening = this.later(run, kOpen_ms, () => this.load_all(run, () => this.start_polling(run)));
      this.source.onopen = () => {
        if (run !== this.run) return;
        clearTimeout(opening);
        clearTimeout(this.poll_timer);
        // Loaded after the stream is open, so that no value falls between the two.
        this.load_all(run, () => this.go_live(run));
      };
      this.source.onerror = () => {
        if (run !== this.run) return;
        clearTimeout(opening);
        this.source.close();
        // Only a request can tell a refusal from a lost connection.
        this.load_all(run, () => this.start_polling(run, 10));
      };
      for (const [name, handle] of Object.entries(this.handlers)) {
        this.source.addEventListener(name, (event) => this.on_event(run, handle, event));
      }
    }

    pause() {
      this.close();
      this.on_state({ kind: "paused" });
    }

    close() {
      ++this.run;
      this.source?.close();
      this.source = null;
      this.held = null;
      this.streams = false;
      for (const timer of this.timers || []) clearTimeout(timer);
      this.timers = [];
    }

    later(run, after_ms, call) {
      const timer = setTimeout(() => run === this.run && call(), after_ms);
      this.timers.push(timer);
      return timer;
    }

    async load_all(run, then) {
      try {
        await this.load();
      } catch (error) {
        if (run === this.run) this.fail(error);
        return;
      }
      if (run !== this.run) return;
      this.failures = 0;
      this.lost_since_ms = null;
      then();
    }

    fail(error) {
      this.close();
      if (!(error instanceof LoadError)) throw error; // a defect of the page
      if (error.kind === "denied") {
        this.on_state({ kind: "denied", message: error.message });
        return;
      }
      this.lost_since_ms ??= Date.now();
      const retry_ms = kRetry_ms[Math.min(this.failures++, kRetry_ms.length - 1)];
      this.on_state({
        kind: "lost",
        since_ms: this.lost_since_ms,
        retry_ms,
        message: error.kind === "answer" ? error.message : "",
      });
      this.later(this.run, retry_ms, () => this.start());
    }

    go_live(run) {
      const held = this.held || [];
      this.held = null;
      this.streams = true;
      for (const call of held) call();
      this.on_state({ kind: "live" });
      this.watch(run);
    }

    on_event(run, handle, event) {
      if (run !== this.run) return;
      let data;
      try {
        data = event.data ? JSON.parse(event.data) : {};
      } catch {
        return; // an incomplete event; the next one or the watch brings the values
      }
      this.heard_ms = performance.now();
      this.doubtful = false;
      if (this.held) this.held.push(() => handle(data));
      else handle(data);
    }

    // A stream may stay open and bring nothing, behind a proxy that collects answers. A poll finds that out.
    watch(run) {
      this.heard_ms = performance.now();
      const quiet_ms = this.doubtful ? kPoll_ms : kQuiet_ms;
      const look = async () => {
        if (performance.now() - this.heard_ms >= quiet_ms) {
          try {
            if (await this.poll()) {
              this.doubtful = true;
              if (run === this.run) this.start_polling(run, 10);
              return;
            }
          } catch (error) {
            if (run === this.run) this.fail(error);
            return;
          }
        }
        if (run === this.run) this.later(run, quiet_ms, look);
      };
      this.later(run, quiet_ms, look);
    }

    // With `rounds`, the stream is tried again after that many polls.
    start_polling(run, rounds = Infinity) {
      this.streams = false;
      this.on_state({ kind: "polling" });
      const again = async () => {
        if (--rounds < 0) return this.start();
        try {
          await this.poll();
        } catch (error) {
          if (run === this.run) this.fail(error);
          return;
        }
        if (run === this.run && !this.streams) this.poll_timer = this.later(run, kPoll_ms, again);
      };
      this.poll_timer = this.later(run, kPoll_ms, again);
    }
  }

  window.rekindle.Live = Live;
  window.rekindle.get = get;
  window.rekindle.LoadError = LoadError;
})();
