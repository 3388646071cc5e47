// A table of which the first rows are shown, and all of them on request. Rows are changed in place.
"use strict";

(() => {
  const { make, set_attribute, set_text, show, time, scroll_box } = window.rekindle.dom;
  const text = window.rekindle.text;

  // A cell is a text, or {text, title, tone, at_ms, part, mark}: `at_ms` a time, `part` (0 to 1) a small bar below the
  // text, `mark` a class for a colour sample in front of the text.
  const kLong = 44; // letters; a longer text wraps

  function fill(node, cell, now_ms) {
    const wanted = typeof cell === "object" && cell !== null ? cell : { text: cell };
    const key = JSON.stringify([wanted, text.known(wanted.at_ms) ? text.clock(wanted.at_ms, now_ms) : 0]);
    if (node.shown_key === key) return;
    node.shown_key = key;
    node.replaceChildren();
    set_attribute(node, "title", wanted.title);
    node.classList.toggle("long", String(wanted.text ?? "").length > kLong);
    set_attribute(node, "data-tone", wanted.tone);
    if (wanted.mark) node.append(make("span", { class: `mark ${wanted.mark}`, "aria-hidden": "true" }));
    if ("at_ms" in wanted) {
      node.append(time(wanted.at_ms, now_ms, wanted.text));
    } else {
      node.append(String(wanted.text ?? text.kNone));
    }
    if (text.known(wanted.part)) {
      const bar = make("span", { class: "small-bar", "aria-hidden": "true" }, make("span"));
      bar.firstChild.style.width = `${Math.max(0, Math.min(1, wanted.part)) * 100}%`;
      node.append(bar);
    }
  }

  class ListTable {
    // columns: [{name, kind, title}], kind "number", "text" (wraps; below the other cells where the page is narrow) or
    // nothing. The first column names its row. The roles are those that the elements have anyway: browsers drop them
    // where a style sheet lays a table out in another way.
    constructor(host, { label, columns, first, empty }) {
      this.columns = columns;
      this.first = first;
      this.everything = false;
      this.rows = [];
      const head = make(
        "tr",
        { role: "row" },
        ...columns.map((c) =>
          make("th", { scope: "col", role: "columnheader", class: c.kind, title: c.title }, c.name),
        ),
      );
      this.body = make("tbody", { role: "rowgroup" });
      const above = columns.filter((column) => column.kind !== "text").length;
      this.table = make(
        "table",
        { role: "table", class: above < columns.length ? "stacks" : null },
        make("caption", { class: "for-screen-readers" }, label),
        make("thead", { role: "rowgroup" }, head),
        this.body,
      );
      this.table.style.setProperty("--columns", above);
      this.box = scroll_box(`Table: ${label}`, this.table);
      this.empty = make("p", { class: "empty", hidden: true }, empty);
      this.button = make("button", { type: "button", class: "more", hidden: true });
      this.button.addEventListener("click", () => {
        this.everything = !this.everything;
        this.draw();
      });
      this.label = label;
      host.append(this.box, this.empty, this.button);
    }

    show(rows, now_ms) {
      this.rows = rows;
      this.now_ms = now_ms;
      this.draw();
    }

    draw() {
      const rows = this.everything ? this.rows : this.rows.slice(0, this.first);
      while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
      rows.forEach((row, index) => this.draw_row(row, index));
      show(this.box, this.rows.length > 0);
      show(this.empty, this.rows.length === 0);
      show(this.button, this.rows.length > this.first);
      const all = text.count(this.rows.length);
      set_text(this.button, this.everything ? `Show the first ${this.first}` : `Show all ${all}`);
      set_attribute(this.button, "aria-label", `${this.button.textContent}: ${this.label}`);
      set_attribute(this.button, "aria-expanded", String(this.everything));
    }

    draw_row(row, index) {
      let line = this.body.rows[index];
      if (!line) {
        line = make("tr", { role: "row" });
        this.columns.forEach((column, at) => {
          const cell = at === 0 ? make("th", { scope: "row", role: "rowheader" }) : make("td", { role: "cell" });
          if (column.kind) cell.className = column.kind;
          line.append(cell);
        });
        this.body.append(line);
      }
      set_attribute(line, "data-tone", row.tone);
      row.cells.forEach((cell, at) => fill(line.children[at], cell, this.now_ms));
    }
  }

  window.rekindle.ListTable = ListTable;
})();
