// Shows the reference. Requests that the viewer sends go to this server only: the page's content security policy permits
// no other.
"use strict";
(() => {
  const api = "/api/v1";

  // Example ids of the document, and where an id of the user's own resources comes from. They stand in the paths and samples
  // of operations that change nothing which exists, so that a request works as it is prefilled.
  const samples = [
    {
      example: "sub_06dyxk8z3pk6n5q1v7wc4t2m9r",
      path: "/webhook-subscriptions?limit=1",
      id: (rows) => rows[0]?.id,
    },
    {
      example: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11",
      path: "/webhook-events?limit=50",
      // An event without deliveries cannot be replayed.
      id: (rows) => (rows.find((row) => row.status !== "received") ?? rows[0])?.event_uuid,
    },
    {
      example: "rpl_06dyxk8z3pk6n5q1v7wc4t2m9r",
      path: "/webhook-replays?limit=1",
      id: (rows) => rows[0]?.id,
    },
  ];

  // Operations other than GET that get ids of the user's own resources: they send an event again or a test of one. Every
  // other operation keeps the example, so that one click never changes or deletes what the user has.
  const harmless = new Set(["test-webhook-subscription", "replay-webhook-event"]);

  // headers returns the credentials of a request, or nothing while the user has entered none.
  const headers = () => {
    const { api_key: key, bearer, environment } = window.sallyportCredentials.stored();
    if (key?.length > 20) {
      return { "API-Key": key };
    }
    if (bearer?.length > 20 && environment) {
      return { Authorization: "Bearer " + bearer, "Environment-Id": environment };
    }
    return null;
  };

  const newestId = async ({ path, id }, sent) => {
    const options = { headers: sent, credentials: "omit", redirect: "error", cache: "no-store" };
    const response = await fetch(api + path, options);
    return response.ok ? id(await response.json()) : undefined;
  };

  // prepared returns the document as the viewer gets it. Optional parameters have their examples, but are not sent unless
  // the user switches them on: a filter would hide what the user looks for.
  const prepared = (text, ids) => {
    const withIds = (operation) => {
      let own = JSON.stringify(operation);
      for (const [example, id] of Object.entries(ids)) {
        own = own.replaceAll(example, id);
      }
      return JSON.parse(own);
    };
    const document = JSON.parse(text);
    for (const item of Object.values(document.paths)) {
      for (const method of Object.keys(item)) {
        if (method === "get" || harmless.has(item[method].operationId)) {
          item[method] = withIds(item[method]);
        }
        const operation = item[method];
        for (const parameter of operation.parameters ?? []) {
          const value = parameter.example ?? parameter.schema?.examples?.[0] ?? parameter.schema?.default;
          if (!parameter.required && value !== undefined) {
            delete parameter.example;
            parameter.examples = { default: { value, "x-disabled": true } };
          }
        }
      }
    }
    return document;
  };

  const fail = (message) => {
    const p = document.createElement("p");
    p.className = "docs-message";
    p.setAttribute("role", "alert");
    p.textContent = message;
    document.getElementById("docs").replaceChildren(p);
  };

  const start = async () => {
    const response = await fetch("/openapi.json", { credentials: "omit" });
    if (!response.ok) {
      throw new Error("The OpenAPI document cannot be loaded: status " + response.status);
    }
    const text = await response.text();
    let ids = {};
    let reference;

    const show = () => {
      const configuration = {
        content: prepared(text, ids),
        title: "Sallyport API",
        slug: "sallyport",
        withDefaultFonts: false,
        telemetry: false,
        agent: { disabled: true },
        mcp: { disabled: true },
        showDeveloperTools: "never",
        hideClientButton: true,
        documentDownloadType: "none",
        hiddenClients: true,
        persistAuth: true,
        authentication: { preferredSecurityScheme: "api_key" },
        onResponseReceived: ({ response: received, request }) => {
          if (received.ok && request.method !== "GET") {
            refresh();
          }
        },
      };
      if (reference) {
        reference.updateConfiguration(configuration);
      } else {
        reference = window.Scalar.createApiReference("#docs", configuration);
      }
    };

    // A dialog with a request that the user is editing stays as it is: the ids change when it is closed. Closed dialogs stay
    // in the page, invisible.
    const isEditing = () =>
      [...document.querySelectorAll('[role="dialog"]')].some((dialog) =>
        dialog.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
      );
    let waiting;
    const showLater = () => {
      clearTimeout(waiting);
      if (isEditing()) {
        waiting = setTimeout(showLater, 200);
      } else {
        show();
      }
    };

    const load = async () => {
      const sent = headers();
      const found = {};
      if (sent) {
        for (const sample of samples) {
          const id = await newestId(sample, sent).catch(() => undefined);
          if (typeof id === "string") {
            found[sample.example] = id;
          }
        }
      }
      const changed = JSON.stringify(found) !== JSON.stringify(ids);
      ids = found;
      return changed;
    };
    let timer;
    const refresh = () => {
      clearTimeout(timer);
      // The viewer stores a credential while it is being typed.
      timer = setTimeout(async () => (await load()) && showLater(), 800);
    };
    await load();
    show();
    window.sallyportCredentials.onChange(refresh);
  };

  start().catch((error) => fail(error.message));
})();
