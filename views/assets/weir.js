/**
 * Page behaviour beyond links and forms: local times, copy buttons, focus after navigation, and live parts.
 *
 * A live part has a sibling element (partials/live.eta) whose `data-live-on` names the stream message it follows, "counters" or "event".
 * When that message arrives, htmx requests the part from the server again.
 */

const api = document.querySelector('meta[name="weir-api"]').content;

/** Minimum interval between refreshes of a live part. */
const REFRESH_MS = 1000;
const RETRY_MS = 5000;
const TIME_FIELDS = 'input[type="datetime-local"]';
const SIGNED_OUT = 'You are signed out.';

// afterSwap runs before the paint. htmx:load covers other loads, such as history navigation.
for (const name of ['htmx:afterSwap', 'htmx:load']) document.addEventListener(name, (event) => enhance(event.target));
document.addEventListener('htmx:afterSettle', (event) => {
  // Navigation moves the focus to the start of the page. A refresh of a live part does not move the focus.
  const main = document.getElementById('main');
  if (event.target !== main) return;
  tell(null);
  const wrong = main.querySelector('[aria-invalid="true"]');
  // htmx scrolls to the top next, and the invalid field may be far below.
  // The focus must be set before the paint, because the user may type at once.
  if (wrong !== null) queueMicrotask(() => wrong.focus());
  else (main.querySelector('[autofocus]') ?? main).focus({ preventScroll: true });
});

/** Pending request of a history step back. It is aborted when the user navigates on: its late response must not replace the new page. */
let stepBack = null;
document.addEventListener('htmx:historyCacheMiss', ({ detail }) => {
  stepBack?.abort();
  stepBack = detail.xhr;
});
document.addEventListener('htmx:beforeSend', ({ detail }) => {
  if (detail.boosted) stepBack?.abort();
});

function enhance(root) {
  forgetNotice();
  for (const time of root.querySelectorAll('time[datetime]')) showLocally(time);
  for (const input of root.querySelectorAll(TIME_FIELDS)) askLocally(input);
  for (const button of root.querySelectorAll('.copy, [data-pause]')) button.hidden = false;
}

function showLocally(time) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) time.textContent = localText(at);
}

function localText(at) {
  const two = (number) => String(number).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Time fields use the local time zone, like displayed times. The URL has UTC, see htmx:configRequest. */
function askLocally(input) {
  const [label] = input.labels;
  if (!label.textContent.endsWith('(UTC)')) return;
  label.textContent = label.textContent.replace(' (UTC)', '');
  if (input.value !== '') input.value = localText(new Date(`${input.value}Z`)).replace(' ', 'T');
}

document.addEventListener('htmx:configRequest', (event) => {
  const { elt, parameters } = event.detail;
  for (const input of elt.querySelectorAll(TIME_FIELDS))
    if (input.value !== '') parameters[input.name] = new Date(input.value).toISOString();
});

/** Removes the notice from the URL, so that a reload does not show it again. */
function forgetNotice() {
  const here = new URL(location);
  if (!here.searchParams.has('notice')) return;
  here.searchParams.delete('notice');
  history.replaceState(history.state, '', here);
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  await copy(button.dataset.copy);
  button.focus();
  button.classList.add('copied');
  setTimeout(() => button.classList.remove('copied'), 1500);
});

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers offer navigator.clipboard only for https and localhost. Weir is also used over http from other hosts.
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** Pauses and resumes a live part. `data-pause` has the id of the sibling element; the button has two labels, one for each action. */
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('[data-pause]');
  if (!button) return;
  for (const label of button.children) label.hidden = !label.hidden;
  const paused = button.classList.toggle('paused');
  const part = document.getElementById(button.dataset.pause);
  part?.toggleAttribute('data-paused', paused);
  if (part && !paused) htmx.trigger(part, 'live');
});

/** Last pointer position: an element that the user is about to click must not move. */
let pointed = { target: null, atMs: 0 };
document.addEventListener('pointermove', ({ target }) => {
  pointed = { target, atMs: performance.now() };
});

/** Whether the pointer is over the part, or text in it is selected. */
function isUsed(part) {
  const selection = getSelection();
  return (
    (part.contains(pointed.target) && performance.now() - pointed.atMs < REFRESH_MS) ||
    (!selection.isCollapsed && part.contains(selection.anchorNode))
  );
}

const due = new Map();

function renew(kind) {
  for (const part of document.querySelectorAll(`[data-live-on~="${kind}"]`)) renewSoon(part);
}

function renewSoon(part) {
  if (due.has(part)) return;
  const timer = setTimeout(() => {
    due.delete(part);
    if (!part.isConnected || part.hasAttribute('data-paused')) return;
    const shown = document.querySelector(part.getAttribute('hx-target'));
    if (shown !== null && isUsed(shown)) renewSoon(part);
    else htmx.trigger(part, 'live');
  }, REFRESH_MS);
  due.set(part, timer);
}

// If a refresh fails, the live part stays unchanged and the page does not navigate.
document.addEventListener('htmx:beforeOnLoad', (event) => {
  const { elt, xhr } = event.detail;
  if (elt.hasAttribute('data-live-on') && xhr.status !== 200) event.preventDefault();
});
document.addEventListener('htmx:sendError', (event) => {
  if (!event.detail.elt.hasAttribute('data-live-on')) tell('Weir does not respond. Try again in a moment.');
});

let stream = null;
let retry = 0;
/** Consecutive failures without an open stream. */
let failures = 0;
/** The API was reachable before, so a failure is not caused by a setting. */
let reachedBefore = new URL(api).origin === location.origin;

/** One stream per page, only while the page is visible and has a live part: browsers open at most six connections to an origin. */
function follow() {
  const wanted = !document.hidden && document.querySelector('[data-live-on]') !== null;
  if (!wanted) return unfollow();
  if (stream !== null) return;
  clearTimeout(retry);
  stream = new EventSource(`${api}/api/v1/stream`, { withCredentials: true });
  stream.addEventListener('open', () => {
    failures = 0;
    reachedBefore = true;
    tell(null);
    // Covers events that arrived before the stream opened or while it was interrupted.
    renew('event');
  });
  stream.addEventListener('gap', () => renew('event'));
  stream.addEventListener('counters', ({ data }) =>
    document.dispatchEvent(new CustomEvent('weir:counters', { detail: JSON.parse(data) })),
  );
  for (const kind of ['counters', 'event']) stream.addEventListener(kind, () => renew(kind));
  stream.addEventListener('error', async () => {
    failures++;
    if (stream?.readyState === EventSource.CLOSED) {
      // The stream was refused and the browser does not retry. It retries interrupted streams itself.
      unfollow();
      retry = setTimeout(follow, RETRY_MS);
    } else if (failures < 2) return;
    const why = await diagnose();
    if (failures > 0) tell(why);
  });
}

function unfollow() {
  stream?.close();
  stream = null;
  clearTimeout(retry);
}

/** Returns the reason why the API does not respond to this page, and how to fix it. */
async function diagnose() {
  const reached = await fetch(`${api}/healthz`, { mode: 'no-cors', cache: 'no-store' }).then(
    () => true,
    () => false,
  );
  if (!reached && reachedBefore) return 'Weir does not respond. This page reconnects automatically.';
  if (!reached)
    return `This page cannot reach Weir at ${api}. If Weir is running, FRONTEND_PUBLIC_API_URL is not a URL that this browser can reach.`;
  const answer = await fetch(`${api}/api/v1/account`, { credentials: 'include' }).catch(() => null);
  if (answer === null)
    return `${api} refuses this page: add ${location.origin} to CORS_ORIGINS, or set FRONTEND_PUBLIC_API_URL to the URL of this page.`;
  if (answer.status === 401) return SIGNED_OUT;
  return 'Live updates are interrupted. Reconnecting.';
}

/** Shows the text in the corner of the page; null hides it. */
function tell(text) {
  const place = document.getElementById('connection');
  const [sentence, signIn] = place.children;
  place.hidden = text === null;
  sentence.textContent = text ?? '';
  // The link reloads the page, which redirects to the sign-in page and back.
  signIn.hidden = text !== SIGNED_OUT;
}

document.addEventListener('visibilitychange', follow);
document.addEventListener('htmx:load', follow);
window.addEventListener('pagehide', unfollow);
// The page may come from the back/forward cache.
window.addEventListener('pageshow', follow);
enhance(document);
follow();
