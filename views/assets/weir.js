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

document.addEventListener('htmx:load', (event) => enhance(event.target));
document.addEventListener('htmx:afterSettle', (event) => {
  // After a change of page a reader starts at its beginning; a live part that was renewed moves nobody.
  const main = document.getElementById('main');
  if (event.target !== main || event.detail.requestConfig?.triggeringEvent?.type === 'live') return;
  (main.querySelector('[aria-invalid="true"], [autofocus]') ?? main).focus({ preventScroll: true });
});

function enhance(root) {
  for (const time of root.querySelectorAll('time[datetime]')) showLocally(time);
  for (const button of root.querySelectorAll('.copy[hidden]')) button.hidden = !navigator.clipboard;
  for (const button of root.querySelectorAll('[data-pause]')) button.hidden = false;
}

function showLocally(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const two = (number) => String(number).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  time.textContent = `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add('copied');
  setTimeout(() => button.classList.remove('copied'), 1500);
});

/** Pauses and resumes a live part: the button says which, by `data-pause="<id of the element beside it>"`. */
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('[data-pause]');
  if (!button) return;
  const paused = button.getAttribute('aria-pressed') !== 'true';
  button.setAttribute('aria-pressed', String(paused));
  document.getElementById(button.dataset.pause)?.toggleAttribute('data-paused', paused);
});

let stream = null;
let retry = 0;
/** In a row, without a stream in between. */
let failures = 0;
const due = new Map();

function renew(kind) {
  for (const part of document.querySelectorAll(`[data-live-on~="${kind}"]:not([data-paused])`)) {
    if (due.has(part)) continue;
    due.set(
      part,
      setTimeout(() => {
        due.delete(part);
        if (part.isConnected && !part.hasAttribute('data-paused')) htmx.trigger(part, 'live');
      }, REFRESH_MS),
    );
  }
}

/** One stream a page, while somebody looks at it and something on it is live: browsers open six connections to an origin at most. */
function follow() {
  const wanted = !document.hidden && document.querySelector('[data-live-on]') !== null;
  if (!wanted) {
    stream?.close();
    stream = null;
    clearTimeout(retry);
    return;
  }
  if (stream !== null) return;
  stream = new EventSource(`${api}/api/v1/stream`, { withCredentials: true });
  stream.addEventListener('open', () => {
    failures = 0;
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
      stream = null;
      clearTimeout(retry);
      retry = setTimeout(follow, RETRY_MS);
    } else if (failures < 2) return;
    const why = await diagnose();
    if (failures > 0) tell(why);
  });
}

/** Why the API does not answer this page, and which setting mends it. */
async function diagnose() {
  const reached = await fetch(`${api}/healthz`, { mode: 'no-cors', cache: 'no-store' }).then(
    () => true,
    () => false,
  );
  if (!reached)
    return `This page cannot reach Weir at ${api}. If Weir runs, FRONTEND_PUBLIC_API_URL is not an address that this browser can reach.`;
  const answer = await fetch(`${api}/api/v1/account`, { credentials: 'include' }).catch(() => null);
  if (answer === null)
    return `${api} refuses this page: add ${location.origin} to CORS_ORIGINS, or set FRONTEND_PUBLIC_API_URL to the address of this page.`;
  if (answer.status === 401) return 'You are signed out here; reload the page to sign in.';
  return 'The live view is interrupted; it is tried again.';
}

function tell(text) {
  const place = document.getElementById('connection');
  place.hidden = text === null;
  place.textContent = text ?? '';
}

document.addEventListener('visibilitychange', follow);
document.addEventListener('htmx:load', follow);
window.addEventListener('pagehide', () => stream?.close());
enhance(document);
follow();
