/**
 * What pages do beyond links and forms: local times, copying, focus after a change of page, and live parts.
 *
 * A live part has an element beside it (partials/live.eta) that names in `data-live-on` what it follows, "counters" or "event": when
 * the stream tells of one, htmx asks the server to render the part again.
 */

const api = document.querySelector('meta[name="weir-api"]').content;

/** A live part is asked for again at most this often. */
const REFRESH_MS = 1000;
const RETRY_MS = 5000;
const TIME_FIELDS = 'input[type="datetime-local"]';
const SIGNED_OUT = 'You are signed out here.';

// Before it is painted; what is loaded otherwise, e.g. by a step back, right after.
for (const name of ['htmx:afterSwap', 'htmx:load']) document.addEventListener(name, (event) => enhance(event.target));
document.addEventListener('htmx:afterSettle', (event) => {
  // After a change of page a reader starts at its beginning; a live part that was renewed moves nobody.
  const main = document.getElementById('main');
  if (event.target !== main) return;
  tell(null);
  const wrong = main.querySelector('[aria-invalid="true"]');
  // htmx scrolls to the top next; the field that has to be mended may be far below. A person may type as soon as it is painted.
  if (wrong !== null) queueMicrotask(() => wrong.focus());
  else (main.querySelector('[autofocus]') ?? main).focus({ preventScroll: true });
});

/** The page of a step back, while it is asked for: whoever has gone on in the meantime is not taken back by its late answer. */
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

/** A time is asked for in the zone in which times are shown; the address has it in UTC, see htmx:configRequest. */
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

/** What was said once is not said again by a reload. */
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
  // Browsers have it for https and this machine alone; Weir is also looked at by http from the machine beside.
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** Pauses and resumes a live part: the button says which, by `data-pause="<id of the element beside it>"`, and in two labels what it does next. */
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('[data-pause]');
  if (!button) return;
  for (const label of button.children) label.hidden = !label.hidden;
  const paused = button.classList.toggle('paused');
  const part = document.getElementById(button.dataset.pause);
  part?.toggleAttribute('data-paused', paused);
  if (part && !paused) htmx.trigger(part, 'live');
});

/** Where the pointer moved last: what is about to be clicked must not move away. */
let pointed = { target: null, atMs: 0 };
document.addEventListener('pointermove', ({ target }) => {
  pointed = { target, atMs: performance.now() };
});

/** Somebody points at something in it, or has selected some of its text. */
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

// A live part whose renewal is refused stays as it was; nobody is taken to another page for it.
document.addEventListener('htmx:beforeOnLoad', (event) => {
  const { elt, xhr } = event.detail;
  if (elt.hasAttribute('data-live-on') && xhr.status !== 200) event.preventDefault();
});
document.addEventListener('htmx:sendError', (event) => {
  if (!event.detail.elt.hasAttribute('data-live-on')) tell('Weir does not answer. Try again in a moment.');
});

let stream = null;
let retry = 0;
/** In a row, without a stream in between. */
let failures = 0;
/** The address of the API was right once: when it does not answer, no setting is to blame. */
let reachedBefore = new URL(api).origin === location.origin;

/** One stream a page, while somebody looks at it and something on it is live: browsers open six connections to an origin at most. */
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
    // What came between the page and the stream, or while it was away.
    renew('event');
  });
  stream.addEventListener('gap', () => renew('event'));
  for (const kind of ['counters', 'event']) stream.addEventListener(kind, () => renew(kind));
  stream.addEventListener('error', async () => {
    failures++;
    if (stream?.readyState === EventSource.CLOSED) {
      // Refused, and given up by the browser; what merely broke off it tries again by itself.
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

/** Why the API does not answer this page, and what mends it. */
async function diagnose() {
  const reached = await fetch(`${api}/healthz`, { mode: 'no-cors', cache: 'no-store' }).then(
    () => true,
    () => false,
  );
  if (!reached && reachedBefore) return 'Weir does not answer. This page goes on by itself as soon as it does.';
  if (!reached)
    return `This page cannot reach Weir at ${api}. If Weir runs, FRONTEND_PUBLIC_API_URL is not an address that this browser can reach.`;
  const answer = await fetch(`${api}/api/v1/account`, { credentials: 'include' }).catch(() => null);
  if (answer === null)
    return `${api} refuses this page: add ${location.origin} to CORS_ORIGINS, or set FRONTEND_PUBLIC_API_URL to the address of this page.`;
  if (answer.status === 401) return SIGNED_OUT;
  return 'The live view is interrupted; it is tried again.';
}

/** In the corner, until it is so no more; null: all is well. */
function tell(text) {
  const place = document.getElementById('connection');
  const [sentence, signIn] = place.children;
  place.hidden = text === null;
  sentence.textContent = text ?? '';
  // The page asks for itself again, and is led there and back.
  signIn.hidden = text !== SIGNED_OUT;
}

document.addEventListener('visibilitychange', follow);
document.addEventListener('htmx:load', follow);
window.addEventListener('pagehide', unfollow);
// The browser may have kept the page as it was left.
window.addEventListener('pageshow', follow);
enhance(document);
follow();
