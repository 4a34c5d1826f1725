// Tells the terminal of the page where its console is, and the visitor why it ended.
"use strict";

const terminal = document.getElementById("terminal");
const address = new URL("ws", document.baseURI);
address.protocol = address.protocol.replace("http", "ws");
terminal.dataset.sessionWebsocketUrl = address.href;

const Socket = window.WebSocket;
window.WebSocket = class extends Socket {
  constructor(...args) {
    super(...args);
    this.addEventListener("open", () => document.querySelector(".xterm-helper-textarea")?.focus());
    this.addEventListener("close", (event) => {
      const reason = event.reason || (event.wasClean ? "" : "The connection to the console was lost.");
      if (reason) document.getElementById("reason").textContent = reason;
      document.getElementById("again").focus();
    });
  }
};

document.getElementById("again").addEventListener("click", () => window.location.reload());
