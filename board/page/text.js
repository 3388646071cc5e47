// Numbers, times and sizes as people read them. Every function takes null for "not known".
"use strict";

(() => {
  const kNone = "–";
  const kMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  const known = (value) => typeof value === "number" && Number.isFinite(value);

  // Four digits, as `rekindle status` shows them: "0.2128", "1.5e+9".
  function number(value) {
    if (!known(value)) return kNone;
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e7 || size < 1e-4) return String(Number(value.toPrecision(4))).replace(/^(\d)(e)/, "$1$2");
    if (size >= 1e4) return count(Math.round(value));
    return String(Number(value.toPrecision(4)));
  }

  // 1,000,000
  function count(value) {
    return known(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 0 }) : kNone;
  }

  function percent(part) {
    if (!known(part)) return kNone;
    const value = part * 100;
    // A run of a million steps is not complete at 99.99 %.
    if (value < 100 && value > 99.9) return "99.9 %";
    return `${Number(value.toFixed(value < 99 ? (value < 10 ? 1 : 0) : 1))} %`;
  }

  function bytes(value) {
    if (!known(value)) return kNone;
    const units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let unit = 0;
    while (value >= 1000 && unit < units.length - 1) {
      value /= 1000;
      ++unit;
    }
    return `${value >= 100 || unit === 0 ? Math.round(value) : Number(value.toFixed(1))} ${units[unit]}`;
  }

  function seconds(value) {
    if (!known(value)) return kNone;
    if (value < 0) value = 0;
    if (value < 10) return `${Number(value.toFixed(1))} s`;
    if (value < 60) return `${Math.round(value)} s`;
    const minutes = Math.floor(value / 60);
    if (minutes < 10) return `${minutes} min ${Math.floor(value % 60)} s`;
    if (minutes < 60) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h ${minutes % 60} min`;
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }

  // Milliseconds since 1970 of "2026-11-26T12:14:10.123Z", or of a log line's "2026-11-26 12:14:10.123" (UTC, too).
  function time_ms(text) {
    if (typeof text !== "string") return null;
    const iso = text.includes("T") ? text : `${text.trim().replace(" ", "T")}Z`;
    const value = Date.parse(iso);
    return Number.isFinite(value) ? value : null;
  }

  const two = (value) => String(value).padStart(2, "0");
  const hour_minute = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const day = (at) => `${at.getDate()} ${kMonths[at.getMonth()]}`;

  // In the reader's time zone; with the day unless that is today's.
  function clock(value_ms, now_ms) {
    if (!known(value_ms)) return kNone;
    const at = new Date(value_ms);
    const now = new Date(known(now_ms) ? now_ms : Date.now());
    if (at.toDateString() === now.toDateString()) return `${hour_minute(at)}:${two(at.getSeconds())}`;
    const year = at.getFullYear() === now.getFullYear() ? "" : ` ${at.getFullYear()}`;
    return `${day(at)}${year} ${hour_minute(at)}`;
  }

  function utc(value_ms) {
    return known(value_ms) ? new Date(value_ms).toISOString().replace("T", " ").replace("Z", " UTC") : "";
  }

  function ago(value_ms, now_ms) {
    if (!known(value_ms) || !known(now_ms)) return kNone;
    const past = (now_ms - value_ms) / 1000;
    if (past < 2) return "just now";
    return `${past < 120 ? seconds(Math.round(past)) : seconds(past).replace(/ \d+ s$/, "")} ago`;
  }

  function zone() {
    const minutes = -new Date().getTimezoneOffset();
    if (minutes === 0) return "UTC";
    const size = Math.abs(minutes);
    const rest = size % 60 ? `:${two(size % 60)}` : "";
    return `UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${rest}`;
  }

  // plural(1, "trainer") is "1 trainer".
  function plural(value, noun) {
    return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  }

  function shortened(value, limit) {
    const letters = Array.from(String(value ?? ""));
    return letters.length <= limit ? letters.join("") : `${letters.slice(0, limit - 1).join("")}…`;
  }

  window.rekindle.text = {
    kNone,
    known,
    number,
    count,
    percent,
    bytes,
    seconds,
    time_ms,
    clock,
    hour_minute,
    day,
    utc,
    ago,
    zone,
    plural,
    shortened,
  };
})();
