// The lists of a run as tables: trainers, attempts, generations, checkpoints, warnings and events.
"use strict";

(() => {
  const { by_id } = window.rekindle.dom;
  const { text, ListTable } = window.rekindle;

  const column = (name, kind, title) => ({ name, kind, title });
  const newest_first = (list) => [...(list || [])].reverse();
  const step_cell = (step) => text.count(step);

  const kTables = {
    trainers: {
      label: "Trainers and what they use",
      first: 8,
      empty: "No trainer is at work.",
      columns: [
        column("Rank", "number"),
        column("Place"),
        column("Phase"),
        column("Step", "number"),
        column("CPU", "number", "100 % is one core; with the processes that load samples"),
        column("Memory", "number", "Resident memory of the process"),
        column("Peak PSS", "number", "Most memory so far; pages that several processes share are divided between them"),
        column("GPU busy", "number gpu"),
        column("GPU memory", "number gpu"),
        column("Trainer"),
      ],
    },
    attempts: {
      label: "Attempts",
      first: 8,
      empty: "No attempt has begun.",
      columns: [
        column("Attempt", "number"),
        column("Began"),
        column("Lasted", "number"),
        column("Pended", "number", "Time since the attempt before ended"),
        column("Starting", "number", "Until its trainers worked together"),
        column("Recovering", "number", "Interruptions within the attempt, added up"),
        column("Steps", "number", "Where it went on, and its last step that was recorded"),
        column("Lost steps", "number", "Made again, by it or the attempt after it"),
        column("Host"),
        column("Job"),
        column("Why it ended", "text"),
      ],
    },
    generations: {
      label: "Generations",
      first: 8,
      empty: "No generation yet: the trainers have not begun to work together.",
      columns: [
        column("Generation"),
        column("Began"),
        column("From step", "number"),
        column("Trainers", "number"),
        column("Why it ended", "text"),
      ],
    },
    checkpoints: {
      label: "Checkpoints",
      first: 8,
      empty: "No checkpoint yet.",
      columns: [column("Step", "number"), column("Age"), column("Verified"), column("Size", "number"), column("Name")],
    },
    warnings: {
      label: "Warnings",
      first: 10,
      empty: "No warnings.",
      columns: [column("When"), column("Level"), column("Text", "text")],
    },
    events: {
      label: "Events",
      first: 12,
      empty: "No events yet.",
      columns: [column("When"), column("Event"), column("Step", "number"), column("What happened", "text")],
    },
  };

  const kEventTones = {
    lost: "bad",
    gave_up: "bad",
    recovered: "good",
    finished: "good",
    requeued: "info",
    rewound: "warn",
    stopped: "warn",
  };
  const kEventSigns = {
    lost: "✕",
    gave_up: "✕",
    recovered: "↻",
    finished: "✓",
    saved: "▣",
    requeued: "⟳",
    stopped: "■",
    started: "▶",
    evaluated: "◆",
    generation: "●",
  };

  function used(bytes, total) {
    if (!text.known(bytes) || !text.known(total) || total <= 0) return { text: text.bytes(bytes) };
    return {
      text: text.percent(bytes / total),
      title: `${text.bytes(bytes)} of ${text.bytes(total)}`,
      part: bytes / total,
    };
  }

  const busy = (value) => ({
    text: text.known(value) ? `${Math.round(value)} %` : text.kNone,
    part: text.known(value) ? value / 100 : null,
  });

  function trainer_row(trainer) {
    const spare = trainer.rank === -1;
    return {
      tone: trainer.slow ? "warn" : null,
      cells: [
        spare ? { text: "spare", title: "Takes the place of a trainer that is lost" } : text.count(trainer.rank),
        { text: `${trainer.host ?? "?"} ${trainer.device ?? ""}`, title: trainer.gpu },
        trainer.slow ? { text: `▲ slow, ${trainer.phase ?? ""}`, tone: "warn" } : trainer.phase,
        step_cell(trainer.step),
        text.known(trainer.cpu_percent) ? `${Math.round(trainer.cpu_percent)} %` : text.kNone,
        text.bytes(trainer.memory_bytes),
        text.bytes(trainer.peak_pss_bytes),
        busy(trainer.gpu_busy_percent),
        used(trainer.gpu_used_bytes, trainer.gpu_total_bytes),
        { text: trainer.trainer, title: text.known(trainer.pid) ? `process ${trainer.pid}` : null },
      ],
    };
  }

  // Slow trainers first: they are what a reader looks for.
  const trainer_rows = (list) =>
    [...list]
      .sort((a, b) => Boolean(b.slow) - Boolean(a.slow) || (a.rank === -1) - (b.rank === -1) || a.rank - b.rank)
      .map(trainer_row);

  function attempt_row(attempt, now_ms) {
    const began = text.time_ms(attempt.began);
    const ended = text.time_ms(attempt.ended);
    return {
      cells: [
        text.count(attempt.attempt),
        { at_ms: began },
        text.seconds(((ended ?? now_ms) - began) / 1000),
        attempt.pending_seconds > 0 ? text.seconds(attempt.pending_seconds) : text.kNone,
        text.seconds(attempt.starting_seconds),
        text.seconds(attempt.recovering_seconds),
        `${text.count(attempt.first_step)} to ${text.count(attempt.last_step)}`,
        { text: text.count(attempt.lost_steps), tone: attempt.lost_steps > 0 ? "warn" : null },
        attempt.host,
        attempt.job || text.kNone,
        ended === null ? { text: "● goes on", tone: "good" } : attempt.why || text.kNone,
      ],
    };
  }

  function generation_row(generation) {
    const goes_on = generation.ended === null || generation.ended === undefined;
    return {
      cells: [
        { text: generation.generation, title: `attempt ${generation.attempt}` },
        { at_ms: text.time_ms(generation.at) },
        step_cell(generation.step),
        text.count(generation.trainers),
        goes_on ? { text: "● goes on", tone: "good" } : generation.ended,
      ],
    };
  }

  function checkpoint_row(checkpoint, now_ms) {
    const at = text.time_ms(checkpoint.at);
    const verified = checkpoint.verified
      ? { text: "✓ verified", tone: "good", title: "A later attempt has read all of it" }
      : { text: "○ not read yet", tone: "muted", title: "Complete, but nobody has read it back" };
    return {
      tone: checkpoint.there ? null : "gone",
      cells: [
        step_cell(checkpoint.step),
        { at_ms: at, text: text.ago(at, now_ms) },
        checkpoint.there ? verified : { text: "removed", tone: "muted", title: "Newer checkpoints took its place" },
        text.bytes(checkpoint.bytes),
        checkpoint.name,
      ],
    };
  }

  function warning_row(warning) {
    const bad = /^(error|critical|fatal)$/i.test(warning.level ?? "");
    return {
      cells: [
        { at_ms: text.time_ms(warning.at) },
        { text: `${bad ? "✕" : "▲"} ${warning.level ?? "warning"}`, tone: bad ? "bad" : "warn" },
        warning.text,
      ],
    };
  }

  function event_row(event) {
    const sign = Object.hasOwn(kEventSigns, event.event) ? kEventSigns[event.event] : "·";
    const tone = Object.hasOwn(kEventTones, event.event) ? kEventTones[event.event] : null;
    return {
      cells: [
        { at_ms: text.time_ms(event.at) },
        { text: `${sign} ${event.event}`, tone },
        step_cell(event.step),
        event.text,
      ],
    };
  }

  class Tables {
    constructor() {
      this.tables = {};
      for (const [name, what] of Object.entries(kTables)) this.tables[name] = new ListTable(by_id(name), what);
    }

    show_trainers(summary, now_ms) {
      const list = summary.trainers || [];
      const gpus = list.some((trainer) => text.known(trainer.gpu_total_bytes) || text.known(trainer.gpu_busy_percent));
      by_id("trainers").classList.toggle("no-gpu", !gpus);
      this.tables.trainers.show(trainer_rows(list), now_ms);
    }

    show(summary, now_ms) {
      const rows = (list, row) => newest_first(list).map((one) => row(one, now_ms));
      this.show_trainers(summary, now_ms);
      this.tables.attempts.show(rows(summary.attempts, attempt_row), now_ms);
      this.tables.generations.show(rows(summary.generations, generation_row), now_ms);
      this.tables.checkpoints.show(rows(summary.checkpoints, checkpoint_row), now_ms);
      this.tables.warnings.show(rows(summary.warnings, warning_row), now_ms);
      this.tables.events.show(rows(summary.events, event_row), now_ms);
    }
  }

  window.rekindle.Tables = Tables;
})();
