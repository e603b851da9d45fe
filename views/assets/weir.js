/** Page behaviour beyond links and forms: local times, copy buttons, focus after navigation. Live parts: see live.js. */

/** Pauses between attempts to open a page that could not be served: the first and the longest. */
const RETRY_FIRST_MS = 1000;
const RETRY_PAUSE_MAX_MS = 15_000;
const TIME_FIELDS = 'input[type="datetime-local"]';

// afterSwap runs before the paint. htmx:load covers other loads, such as history navigation.
for (const name of ['htmx:afterSwap', 'htmx:load']) document.addEventListener(name, (event) => enhance(event.target));
document.addEventListener('htmx:afterSettle', (event) => {
  // Navigation moves the focus to the start of the page. A refresh of a live part does not move the focus.
  const main = document.getElementById('main');
  if (event.target !== main) return;
  const wrong = main.querySelector('[aria-invalid="true"]');
  // htmx scrolls to the top next, and the invalid field may be far below.
  // The focus must be set before the paint, because the user may type at once.
  if (wrong !== null) queueMicrotask(() => wrong.focus());
  else if (!focusRow()) (filterField() ?? main.querySelector('[autofocus]') ?? main).focus({ preventScroll: true });
});

/** The list that was left by a link of one of its rows, and the link. Back at the list, the link has the focus again. */
let left = null;
const here = () => location.pathname + location.search;
document.addEventListener('htmx:beforeSend', ({ detail: { boosted, elt } }) => {
  if (boosted && elt.matches('#main tr a')) left = { list: here(), href: elt.getAttribute('href') };
});
document.addEventListener('htmx:historyRestore', focusRow);

function focusRow() {
  if (left?.list !== here()) return false;
  const link = [...document.querySelectorAll('#main tr a')].find((one) => one.getAttribute('href') === left.href);
  left = null;
  // htmx scrolls to the top next.
  if (link !== undefined) queueMicrotask(() => link.focus());
  return link !== undefined;
}

/**
 * The navigation under way: the boosted link or form, or a step back in history, and its request. The next navigation aborts it, as a
 * browser does without htmx: its late response must not replace the new page. A form that the server already has is carried out.
 */
let leaving = null;
document.addEventListener('htmx:historyCacheMiss', ({ detail: { xhr } }) => leave(document.body, xhr));
document.addEventListener('htmx:beforeSend', ({ detail: { boosted, elt, xhr } }) => {
  if (boosted) leave(elt, xhr);
});

function leave(elt, xhr) {
  // A link that was pressed twice has a second request, which htmx sends when the first is aborted.
  while (leaving !== null) {
    const last = leaving.xhr;
    leaving = null;
    last.abort();
  }
  leaving = { elt, xhr };
}

// A refresh does not remove a link that is being followed: htmx would show the new page without its URL.
document.addEventListener('htmx:beforeOnLoad', (event) => {
  const { boosted, target } = event.detail;
  const isUnderWay = leaving !== null && leaving.xhr.readyState % XMLHttpRequest.DONE !== 0;
  if (!boosted && isUnderWay && target.contains(leaving.elt)) event.preventDefault();
});

/** The response is not that page, or that form with its errors. */
function isRefused({ status }) {
  return status >= 400 && status !== 422;
}

// A link to a part of a page, such as a view of a body, leads to the whole page of a refusal, which has no such part.
document.addEventListener('htmx:beforeSwap', ({ detail }) => {
  if (!isRefused(detail.xhr) || !detail.requestConfig.elt.closest('[hx-select]')) return;
  const target = document.getElementById('main');
  Object.assign(detail, { target, selectOverride: 'unset', swapOverride: 'innerHTML show:window:top' });
});

function filterField() {
  const field = focusBack === '' ? null : document.getElementById(focusBack);
  focusBack = '';
  return field;
}

function enhance(root) {
  forgetNotice();
  for (const time of root.querySelectorAll('time[datetime]')) showLocally(time);
  for (const input of root.querySelectorAll(TIME_FIELDS)) askLocally(input);
  for (const button of root.querySelectorAll('[data-day]')) setLocalDay(button);
  for (const one of root.querySelectorAll('[aria-label$=" UTC"], [data-label$=" UTC"]')) labelLocally(one);
  for (const title of root.querySelectorAll('.strip title')) title.textContent = endingLocally(title.textContent);
  for (const button of root.querySelectorAll('[data-copy], [data-pause]')) button.hidden = false;
}

/** Shows an absolute time in the time zone of the browser; a relative one (partials/ago.eta) gets it on hover, beside UTC. */
function showLocally(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  if (!time.classList.contains('ago')) time.textContent = localText(at);
  else if (!time.title.includes('(')) time.title = `${localText(at)} (${time.title})`;
}

const AGO_MS = 15_000;
const spans = [
  [86_400_000, (days) => (days === 1 ? '1 day' : `${days} days`)],
  [3_600_000, (hours) => `${hours} h`],
  [60_000, (minutes) => `${minutes} min`],
];

/** The words of span() in show.ts. */
function agoText(at) {
  const ms = Date.now() - at.getTime();
  const [length, words] = spans.find(([span]) => ms >= span) ?? [];
  return `${length === undefined ? '< 1 min' : words(Math.floor(ms / length))} ago`;
}

// The part around a relative time is refreshed only when something in it changes.
setInterval(() => {
  for (const time of document.querySelectorAll('time.ago')) {
    const text = agoText(new Date(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
}, AGO_MS);

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

/** A day of a filter begins at midnight of the browser's time zone. */
function setLocalDay(button) {
  const now = new Date();
  const midnight = (days) => new Date(now.getFullYear(), now.getMonth(), now.getDate() + days).toISOString();
  const day = Number(button.dataset.day);
  button.value = `${midnight(day)}/${button.value.endsWith('/') ? '' : midnight(day + 1)}`;
  button.textContent = button.textContent.replace(' (UTC)', '');
}

/** A time at the end of a label, which assistive technology reads. */
function labelLocally(element) {
  for (const name of ['aria-label', 'data-label'])
    if (element.hasAttribute(name)) element.setAttribute(name, endingLocally(element.getAttribute(name)));
}

/** The text with the time at its end in the time zone of the browser. */
function endingLocally(text) {
  return text.replace(
    /^(.*)(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)? UTC$/s,
    (_, before, day, time, seconds = '') =>
      before + localText(new Date(`${day}T${time}${seconds}Z`)).slice(0, seconds ? 19 : 16),
  );
}

/** Id of the field from which a filter was sent: its page has the same field, and the user may continue typing. */
let focusBack = '';
document.addEventListener('htmx:configRequest', (event) => {
  const { elt, parameters } = event.detail;
  for (const input of elt.querySelectorAll(TIME_FIELDS))
    if (input.value !== '') parameters[input.name] = new Date(input.value).toISOString();
  if (!elt.matches('form[method="get"]')) return;
  // An empty field does not filter, and users share the URL.
  for (const [name, value] of Object.entries(parameters)) if (value === '') delete parameters[name];
  focusBack = elt.contains(document.activeElement) ? document.activeElement.id : '';
});

/** Removes the notice from the URL, so that a reload does not show it again. */
function forgetNotice() {
  const here = new URL(location);
  if (!here.searchParams.has('notice')) return;
  for (const name of ['notice', 'proof']) here.searchParams.delete(name);
  history.replaceState(history.state, '', here);
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  const copied = await copy(button.dataset.copy);
  button.focus();
  document.dispatchEvent(new CustomEvent('weir:copied', { detail: copied }));
  if (!copied) return;
  button.classList.add('copied');
  setTimeout(() => button.classList.remove('copied'), 1500);
});

/** Returns whether the text is in the clipboard. */
async function copy(text) {
  // Browsers offer navigator.clipboard only for https and localhost, and may refuse it. Weir is also used over http from other hosts.
  const written = navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  if (await written) return true;
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
}

/** A page that could not be served (problem.eta) opens its URL again once that works, with growing pauses. */
function retryPage(pauseMs) {
  const place = document.querySelector('[data-retry]');
  if (place === null) return;
  place.textContent = 'This page tries again by itself.';
  setTimeout(async () => {
    if (!place.isConnected) return;
    const works = await fetch(place.dataset.retry, { redirect: 'manual' }).then(
      ({ status }) => status < 500,
      () => false,
    );
    if (works && place.isConnected) location.replace(place.dataset.retry);
    else retryPage(Math.min(pauseMs * 2, RETRY_PAUSE_MAX_MS));
  }, pauseMs);
}

document.addEventListener('htmx:load', ({ target }) => {
  if (target.querySelector('[data-retry]') !== null) retryPage(RETRY_FIRST_MS);
});

enhance(document);
