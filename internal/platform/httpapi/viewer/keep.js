// Keeps the credentials that a user enters: in this tab (sessionStorage), in this browser (localStorage) or not at all. The
// viewer stores them in localStorage under one prefix. This script runs before the viewer and gives it a localStorage whose
// entries of that prefix are where the user wants them. They never leave the browser, except in requests to this server.
"use strict";
(() => {
  const prefix = "scalar-reference-auth";
  const choiceName = "sallyport-docs-keep";

  // A browser can forbid storage: then everything is in memory.
  const inMemory = () => {
    const map = new Map();
    return {
      getItem: (name) => map.get(name) ?? null,
      setItem: (name, value) => map.set(name, String(value)),
      removeItem: (name) => map.delete(name),
      keys: () => [...map.keys()],
    };
  };
  const open = (name) => {
    try {
      const storage = window[name];
      storage.setItem(choiceName + "-probe", "");
      storage.removeItem(choiceName + "-probe");
      return {
        getItem: (key) => storage.getItem(key),
        setItem: (key, value) => storage.setItem(key, value),
        removeItem: (key) => storage.removeItem(key),
        keys: () => Object.keys(storage),
      };
    } catch {
      return inMemory();
    }
  };
  const browser = open("localStorage");
  const places = { tab: open("sessionStorage"), browser, none: inMemory() };
  let choice = browser.getItem(choiceName);
  if (!Object.hasOwn(places, choice)) {
    choice = "tab";
  }
  const place = (name) => (name.startsWith(prefix) ? places[choice] : browser);
  const credentials = (storage) => storage.keys().filter((name) => name.startsWith(prefix));
  const listeners = [];

  // Other places have nothing: they may be left from another choice, or from another tab.
  const clear = (keep) => {
    for (const [name, storage] of Object.entries(places)) {
      if (name !== keep) {
        credentials(storage).forEach((key) => storage.removeItem(key));
      }
    }
  };
  clear(choice);

  const facade = {
    getItem: (name) => place(name).getItem(name),
    setItem: (name, value) => {
      place(name).setItem(name, value);
      if (name.startsWith(prefix)) {
        listeners.forEach((listen) => listen());
      }
    },
    removeItem: (name) => place(name).removeItem(name),
    key: (index) => browser.keys()[index] ?? null,
    clear: () => browser.keys().forEach((name) => browser.removeItem(name)),
    get length() {
      return browser.keys().length;
    },
  };
  Object.defineProperty(window, "localStorage", { configurable: true, get: () => facade });

  // stored returns the secrets that the viewer has stored, by the name of the security scheme.
  const stored = () => {
    const secrets = {};
    for (const name of credentials(places[choice])) {
      let entry;
      try {
        entry = JSON.parse(places[choice].getItem(name));
      } catch {
        continue;
      }
      for (const [scheme, secret] of Object.entries(entry?.secrets ?? {})) {
        if (typeof secret?.["x-scalar-secret-token"] === "string") {
          secrets[scheme] = secret["x-scalar-secret-token"];
        }
      }
    }
    return secrets;
  };

  const select = document.getElementById("docs-keep");
  select.value = choice;
  select.addEventListener("change", () => {
    const entries = credentials(places[choice]).map((name) => [name, places[choice].getItem(name)]);
    choice = select.value;
    browser.setItem(choiceName, choice);
    entries.forEach(([name, value]) => places[choice].setItem(name, value));
    clear(choice);
  });
  document.getElementById("docs-forget").addEventListener("click", () => {
    clear();
    location.reload();
  });
  window.sallyportCredentials = { stored, onChange: (listen) => listeners.push(listen) };
})();
