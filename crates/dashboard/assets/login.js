// The login: turns a link or a password into a session.
const next = document.getElementById("login")?.dataset.next ?? "/";
const status = /** @type {HTMLElement} */ (document.getElementById("status"));

async function send(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  const answer = await response.json().catch(() => null);
  if (response.ok) {
    status.textContent = "Welcome.";
    location.replace(next);
    return;
  }
  status.className = "bad-text";
  status.textContent = [answer?.detail ?? "the login failed", answer?.advice].filter(Boolean).join(". ");
}

// What a provider sent the browser back with has been used.
if (location.pathname !== "/login") history.replaceState(null, "", "/login");

const token = location.hash.slice(1);
if (token) {
  // The secret leaves the address before anything else happens.
  history.replaceState(null, "", location.pathname + location.search);
  status.textContent = "Logging in…";
  send("/api/auth/link", { token }).catch(() => (status.textContent = "The dashboard does not answer."));
} else {
  // Somebody who is logged in and came from elsewhere: their cookie was not sent with the page.
  fetch("/api/auth/me", { credentials: "same-origin" }).then((response) => {
    if (response.ok) location.replace(next);
  }, () => {});
}

document.getElementById("password-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (document.getElementById("password"));
  status.className = "";
  status.textContent = "Logging in…";
  send("/api/auth/password", { password: field.value }).catch(() => (status.textContent = "The dashboard does not answer."));
  field.value = "";
});

document.getElementById("provider")?.addEventListener("click", async () => {
  status.className = "";
  status.textContent = "Asking the provider…";
  try {
    const response = await fetch("/api/auth/oidc", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ next }),
      credentials: "same-origin",
    });
    const answer = await response.json();
    if (response.ok) return location.assign(answer.address);
    status.className = "bad-text";
    status.textContent = answer.detail;
  } catch {
    status.textContent = "The dashboard does not answer.";
  }
});
