// Where the time of a step goes: a stacked bar, and the same as a table.
"use strict";

(() => {
  const { make, set_attribute, show } = window.rekindle.dom;
  const { text, ListTable } = window.rekindle;
  const kParts = [
    ["data", "waiting for data"],
    ["compute", "computing"],
    ["exchange", "exchanging gradients"],
    ["update", "updating"],
    ["checkpoint", "checkpoint"],
  ];

  // [{name, words, ms, part}] that add up to 1. The parts of the contract need not add up to the step: what is left is
  // "other", and if they overlap the bar is as long as their sum.
  function parts_of(step_ms) {
    const parts = kParts
      .map(([name, words]) => ({ name, words, ms: step_ms?.[name] }))
      .filter((part) => text.known(part.ms));
    const sum = parts.reduce((total, part) => total + Math.max(0, part.ms), 0);
    const whole = Math.max(sum, text.known(step_ms?.step) ? step_ms.step : 0);
    if (!(whole > 0)) return [];
    if (whole - sum > whole * 0.005) parts.push({ name: "other", words: "other", ms: whole - sum });
    return parts.map((part) => ({ ...part, part: Math.max(0, part.ms) / whole }));
  }

  class StepTime {
    constructor(host) {
      this.bar = make("div", { class: "stack", role: "img", hidden: true });
      this.host = host;
      host.append(this.bar);
      this.table = new ListTable(host, {
        label: "Where the time of a step goes",
        columns: [{ name: "Part" }, { name: "Time", kind: "number" }, { name: "Share", kind: "number" }],
        first: 7,
        empty: "No step is complete yet.",
      });
    }

    show(summary, now_ms) {
      const parts = parts_of(summary.step_ms);
      show(this.bar, parts.length > 0);
      const words = parts.map((part) => `${part.words} ${text.percent(part.part)}`).join(", ");
      set_attribute(this.bar, "aria-label", `Of a step's time: ${words}`);
      while (this.bar.children.length > parts.length) this.bar.lastChild.remove();
      parts.forEach((part, index) => {
        if (!this.bar.children[index]) this.bar.append(make("span"));
        const node = this.bar.children[index];
        set_attribute(node, "class", `segment part-${part.name}`);
        set_attribute(node, "title", `${part.words}: ${text.number(part.ms)} ms, ${text.percent(part.part)}`);
        node.style.width = `${part.part * 100}%`;
      });
      const time = (ms) => `${text.number(Math.round(ms * 10) / 10)} ms`;
      const rows = parts.map((part) => ({
        cells: [{ text: part.words, mark: `part-${part.name}` }, time(part.ms), text.percent(part.part)],
      }));
      if (parts.length && text.known(summary.step_ms.step)) {
        rows.push({ tone: "total", cells: ["whole step", time(summary.step_ms.step), ""] });
      }
      this.table.show(rows, now_ms);
    }
  }

  window.rekindle.StepTime = StepTime;
})();
