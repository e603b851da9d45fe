/** Where a request comes from and where its response leads: browsers, htmx fragments and redirects. */
import type { Exchange } from '../../base/http/exchange.ts';

/** The path of a request with its query. */
export function addressOf({ path, query }: Exchange): string {
  return query === '' ? path : `${path}?${query}`;
}

/** The page that contained the form, from Referer; `/` when unknown. */
export function formAddress(exchange: Exchange, publicUrl: string): string {
  const from = exchange.header('referer') ?? '';
  return from.startsWith(`${publicUrl}/`) ? from.slice(publicUrl.length) : '/';
}

/** Whether a browser requests a page of Weir. Paths below /api/ and /in/ are always for programs. */
export function prefersHtml(exchange: Exchange): boolean {
  return (
    exchange.method === 'GET' &&
    !/^\/(api|in)\//.test(exchange.path) &&
    (isFragment(exchange) || (exchange.header('accept') ?? '').includes('text/html'))
  );
}

/** Whether a program asks for JSON: it gets the document of a problem, not a page. */
export function asksForJson(exchange: Exchange): boolean {
  const accept = exchange.header('accept') ?? '';
  return /\bjson\b/.test(accept) && !accept.includes('text/html');
}

/** Whether htmx inserts the response into the open page. A history restore needs the whole page. */
export function isFragment(exchange: Exchange): boolean {
  return exchange.header('hx-request') === 'true' && exchange.header('hx-history-restore-request') !== 'true';
}

/** Whether the user opens a page by URL or link. Other htmx requests load part of a page. */
export function isPageLoad(exchange: Exchange): boolean {
  if (exchange.method !== 'GET') return false;
  return exchange.header('hx-request') !== 'true' || (isFragment(exchange) && exchange.header('hx-boosted') === 'true');
}

/** Redirects. htmx would insert the target into the open page; with `hx-redirect` it loads the target as a new page. */
export function redirectBrowser(exchange: Exchange, address: string): null {
  if (isFragment(exchange)) {
    exchange.setHeader('hx-redirect', address);
    exchange.answer(204, 'text/plain', '');
  } else redirectTo(exchange, address);
  return null;
}

/** Answers 303 with a path of Weir or a checked address. */
export function redirectTo(exchange: Exchange, path: string): void {
  exchange.setHeader('location', path);
  exchange.answer(303, 'text/plain', '');
}
