/**
 * Live parts: the stream of counters and events, refreshes of parts of a page, and what the page says while its data is old.
 *
 * A live part has a sibling element (partials/live.eta) whose `data-live-on` names the stream message it follows, "counters" or "event".
 * When that message arrives, htmx requests the part from the server again. After a failed refresh the sibling becomes visible as a
 * stamp, "Not updated for 12 s", and the refresh is repeated with growing pauses.
 */

const api = document.querySelector('meta[name="weir-api"]').content;

/** Minimum interval between refreshes of a live part, and the longest pause after failed ones. */
const REFRESH_MS = 1000;
const REFRESH_PAUSE_MAX_MS = 15_000;
const REFRESH_TIMEOUT_MS = 5_000;
const RETRY_MS = 5000;
/** Counters arrive every second. */
const SILENCE_MS = 5_000;
/** A part that is in use, and so not refreshed, for longer than any pause says how old it is. */
const USED_MS = 30_000;
const SIGNED_OUT = 'You are signed out.';

/** What does not work now, by a message with counters; the texts are in partials/layout/outages.eta. */
const outageRules = {
  database: (live) => live.database === 'down' && !live.spooling,
  spooling: (live) => live.database === 'down' && live.spooling,
  rate_limits: (live) => live.processes.some((one) => one.rate_limit_store === 'degraded'),
};
/** The names of current outages. */
let outages = [];
const isDatabaseDown = () => outages.includes('database') || outages.includes('spooling');

function showOutages(live) {
  const wasDown = isDatabaseDown();
  outages = Object.keys(outageRules).filter((name) => outageRules[name](live));
  for (const text of document.querySelectorAll('[data-outage]')) text.hidden = !outages.includes(text.dataset.outage);
  document.getElementById('outages').hidden = outages.length === 0;
  const facts = factsOf(live.outage);
  for (const place of document.querySelectorAll('[data-outage-facts]'))
    if (place.textContent !== facts) place.textContent = facts;
  if (wasDown && !isDatabaseDown()) for (const part of liveParts()) refreshNow(part);
}

/** The words of partials/layout/outages.eta. A short outage has none. */
function factsOf(outage) {
  if (!outage) return '';
  const count = (value, one) => `${value.toLocaleString('en-US')} ${one}${value === 1 ? '' : 's'}`;
  const { began_at, refused, spooled } = outage;
  return `Since ${localText(new Date(began_at))}: ${count(refused, 'request')} refused, ${count(spooled, 'event')} spooled.`;
}

function liveParts() {
  return document.querySelectorAll('[data-live-on]');
}

/**
 * State of each live part, by its sibling element. `timer`: the next refresh; 0: none. `failures`: consecutive failed refreshes.
 * `wanted`: something changed since the last refresh. `goodMs`: when the part was last known to be current.
 */
const states = new WeakMap();
function stateOf(part) {
  if (!states.has(part)) states.set(part, { timer: 0, failures: 0, wanted: false, goodMs: performance.now() });
  return states.get(part);
}

function renew(kind) {
  for (const part of document.querySelectorAll(`[data-live-on~="${kind}"]`)) refreshSoon(part);
}

function refreshSoon(part) {
  const state = stateOf(part);
  state.wanted = true;
  if (state.timer !== 0) return;
  const everyMs = Math.max(REFRESH_MS, Number(part.dataset.every ?? 0) * 1000);
  const pauseMs = Math.min(everyMs * 2 ** state.failures, REFRESH_PAUSE_MAX_MS);
  state.timer = setTimeout(() => {
    state.timer = 0;
    if (!part.isConnected || part.hasAttribute('data-paused')) return;
    // The refresh follows when the database answers again.
    if (isDatabaseDown()) return;
    const shown = shownBy(part);
    if (shown !== null && isUsed(shown)) refreshSoon(part);
    else htmx.trigger(part, 'live');
  }, pauseMs);
}

function refreshNow(part) {
  const state = stateOf(part);
  clearTimeout(state.timer);
  Object.assign(state, { timer: 0, failures: 0 });
  refreshSoon(part);
}

function shownBy(part) {
  return document.querySelector(part.getAttribute('hx-target'));
}

/** Last pointer position: an element that the user is about to click must not move. */
let pointed = { target: null, atMs: 0 };
document.addEventListener('pointermove', ({ target }) => {
  pointed = { target, atMs: performance.now() };
});

/** Whether the pointer is over the part, text in it is selected, a field in it has the focus or was changed, or a chart in it is read by keyboard. */
function isUsed(part) {
  const selection = getSelection();
  return (
    (part.contains(pointed.target) && performance.now() - pointed.atMs < REFRESH_MS) ||
    (!selection.isCollapsed && part.contains(selection.anchorNode)) ||
    [...part.querySelectorAll('input, textarea, select')].some(isChanged) ||
    (document.activeElement?.matches('.plot .chart, input, textarea, select') && part.contains(document.activeElement))
  );
}

/** Whether a field differs from what the server sent. */
function isChanged({ type, checked, defaultChecked, value, defaultValue, options, selectedIndex }) {
  if (options)
    return (
      selectedIndex !==
      Math.max(
        0,
        [...options].findIndex((one) => one.defaultSelected),
      )
    );
  return ['checkbox', 'radio'].includes(type) ? checked !== defaultChecked : value !== defaultValue;
}

document.addEventListener('htmx:configRequest', ({ detail }) => {
  const { elt } = detail;
  if (!elt.hasAttribute('data-live-on')) return;
  detail.timeout = REFRESH_TIMEOUT_MS;
  elt.addEventListener('htmx:beforeOnLoad', ignoreWhenLeft);
});
/** The page was left before the response: the parts that it replaces are gone. Events of a removed element do not reach the document. */
function ignoreWhenLeft(event) {
  if (!event.target.isConnected) event.preventDefault();
}
// If a refresh fails, or the progress, search or preview of a page, its part stays unchanged and the page does not navigate.
document.addEventListener('htmx:beforeOnLoad', (event) => {
  const { elt, xhr } = event.detail;
  const isFailed = elt.matches('[data-live-on], #search-on') ? xhr.status !== 200 : isRefused(xhr);
  if (elt.matches('[hx-trigger]') && isFailed) event.preventDefault();
  else if (event.defaultPrevented && elt.hasAttribute('data-live-on')) refreshSoon(elt);
});
/** A refresh replaces the part: what the user has opened in it stays open. */
let openDetails = [];
/** What has the focus keeps it when a part of the page is replaced. Null: nothing has it, or htmx finds it by its id. */
let focused = null;
const FOCUSABLE = ':is(a, button, summary, [tabindex]):not([id])';
// Here detail.elt is the target.
document.addEventListener('htmx:beforeSwap', ({ detail: { requestConfig, target } }) => {
  const isRefresh = requestConfig.elt.hasAttribute('data-live-on');
  openDetails = isRefresh ? [...target.querySelectorAll('details[open][id]')].map(({ id }) => id) : [];
  const isPart = target.id !== 'main' && document.activeElement.matches(FOCUSABLE);
  focused = isPart ? identityOf(document.activeElement) : null;
});
document.addEventListener('htmx:afterSwap', () => {
  for (const id of openDetails.splice(0)) document.getElementById(id)?.setAttribute('open', '');
  if (focused !== null && document.activeElement === document.body)
    [...document.querySelectorAll(FOCUSABLE)]
      .find((one) => identityOf(one) === focused)
      ?.focus({ preventScroll: true });
});

/** What tells an element from the others of its page: its row, where it leads and what it says. */
function identityOf(element) {
  const row = element.closest('tr, li, article')?.querySelector('a')?.getAttribute('href');
  const [address, label] = [element.getAttribute('href') ?? element.form?.action, element.getAttribute('aria-label')];
  return [row, element.tagName, address, label ?? element.textContent].join('\n');
}

document.addEventListener('htmx:afterRequest', ({ detail: { elt, xhr } }) => {
  if (!elt.hasAttribute('data-live-on')) return;
  const state = stateOf(elt);
  if (xhr.status === 200) Object.assign(state, { failures: 0, wanted: false, goodMs: performance.now() });
  else {
    state.failures++;
    refreshSoon(elt);
  }
  showAges();
});
document.addEventListener('htmx:sendError', (event) => {
  if (!event.detail.elt.hasAttribute('data-live-on')) tell('Weir does not respond. Try again in a moment.');
});
document.addEventListener('htmx:afterSettle', (event) => {
  if (event.target === document.getElementById('main')) tell(null);
});

/** Shows the age of each live part that is not refreshed, and greys out its content if it cannot be. */
function showAges() {
  const nowMs = performance.now();
  const silent = countersMs !== null && nowMs - countersMs > SILENCE_MS;
  for (const part of liveParts()) {
    const state = stateOf(part);
    const isOld = silent || state.failures > 0 || failures > 1 || isDatabaseDown();
    const isKept = state.wanted && nowMs - state.goodMs > USED_MS;
    const shows = (isOld || isKept) && !part.hasAttribute('data-paused');
    if (!shows && !state.wanted) state.goodMs = nowMs;
    part.hidden = !shows;
    shownBy(part)?.toggleAttribute('data-old', shows && isOld);
    if (shows) part.textContent = `Not updated for ${ageText(nowMs - state.goodMs)}`;
  }
}
setInterval(showAges, 1000);

function ageText(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}

/** A search that continues by itself has a button that stops it; the link beside the button continues the search. */
htmx.onLoad((part) => {
  for (const button of part.querySelectorAll('[data-stop]')) button.hidden = false;
});
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('[data-stop]');
  if (!button) return;
  const search = button.closest('#search-on');
  const copy = search.cloneNode(true);
  for (const name of [...copy.getAttributeNames()]) if (name.startsWith('hx-')) copy.removeAttribute(name);
  copy.querySelector('[data-stop]').remove();
  htmx.trigger(search, 'htmx:abort');
  search.replaceWith(copy);
  htmx.process(copy);
});

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

let stream = null;
let retry = 0;
/** Consecutive failures without an open stream. */
let failures = 0;
/** When counters last arrived; null: none did on this page. */
let countersMs = null;
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
  stream.addEventListener('event', () => renew('event'));
  stream.addEventListener('counters', ({ data }) => {
    countersMs = performance.now();
    const live = JSON.parse(data);
    showOutages(live);
    document.dispatchEvent(new CustomEvent('weir:counters', { detail: live }));
    renew('counters');
  });
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
  countersMs = null;
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
follow();
