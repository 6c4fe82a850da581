// The console works without this file. It adds: light and dark by a switch, figures that move, and keys.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const theme = stored();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const PLACES = { c: "/", t: "/topics", g: "/groups", m: "/messages", d: "/dead-letters", w: "/waiting", a: "/access",
    s: "/settings", f: "/stores" };

  function switchTheme() {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a browser that keeps nothing */ }
  }

  function poll(part) {
    const every = Number(part.dataset.every) || 2000;
    const again = () => setTimeout(ask, every);
    async function ask() {
      if (document.hidden || part.contains(document.activeElement)) return again();
      try {
        const answer = await fetch(part.dataset.poll, { headers: { Accept: "text/html" }, redirect: "error" });
        if (!answer.ok) throw new Error(answer.statusText);
        part.innerHTML = await answer.text();
        part.classList.remove("stale");
      } catch {
        part.classList.add("stale");
      }
      again();
    }
    again();
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const help = document.getElementById("keys");
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { search.focus(); search.select(); event.preventDefault(); }
    } else if (event.key === "?" && help) {
      help.showModal();
    } else if (event.key === "l") {
      switchTheme();
    } else if (keys.before === "g" && PLACES[event.key]) {
      location.assign(PLACES[event.key]);
    }
    keys.before = event.key;
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-poll]").forEach(poll);
    document.querySelectorAll("[data-do=theme]").forEach((each) => each.addEventListener("click", switchTheme));
    document.querySelectorAll("[data-do=keys]").forEach((each) => each.addEventListener("click", () => document.getElementById("keys").showModal()));
    document.querySelectorAll("[data-tick-all]").forEach((each) => each.addEventListener("change", () => {
      document.querySelectorAll(`input[name="${each.dataset.tickAll}"]`).forEach((box) => { box.checked = each.checked; });
    }));
    document.querySelectorAll("select[data-submits]").forEach((each) => each.addEventListener("change", () => each.form.requestSubmit()));
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
    document.addEventListener("keydown", keys);
    root.dataset.ready = "";
  });
})();
