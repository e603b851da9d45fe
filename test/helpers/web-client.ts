/** A browser without a screen or scripts: keeps cookies, follows redirects one at a time, sends forms. */

interface Cookie {
  origin: string;
  name: string;
  value: string;
  path: string;
  /** The complete header field, for tests of its attributes. */
  field: string;
}

export interface Page {
  url: string;
  status: number;
  headers: Headers;
  text: string;
  /** Absolute redirect target; null without a redirect. */
  location: string | null;
}

/** Status and code of a problem, from the API or from a page. */
export function problemShown({ status, text }: Pick<Page, 'status' | 'text'>): [number, string] {
  const shown = text.startsWith('{') ? JSON.parse(text).code : /Code <code>(\w+)<\/code>/.exec(text)?.[1];
  return [status, shown];
}

export class WebClient {
  readonly #places: ReadonlyMap<string, string>;
  #cookies: Cookie[] = [];

  /** @param places origins that listen elsewhere: the app's public origin, mapped to its listen address */
  constructor(places: Record<string, string> = {}) {
    this.#places = new Map(Object.entries(places));
  }

  /** Sends one request: GET, or the form as POST, which states its origin as every browser does. */
  async open(address: string, form?: Record<string, string> | URLSearchParams): Promise<Page> {
    const url = new URL(address);
    const cookies = this.#cookies.filter(({ origin, path }) => origin === url.origin && url.pathname.startsWith(path));
    const place = this.#places.get(url.origin) ?? url.origin;
    const response = await fetch(place + url.pathname + url.search, {
      redirect: 'manual',
      headers: {
        cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; '),
        ...(form !== undefined && { origin: url.origin }),
      },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const field of response.headers.getSetCookie()) this.#keep(url, field);
    const location = response.headers.get('location');
    return {
      url: url.href,
      status: response.status,
      headers: response.headers,
      text: await response.text(),
      location: location === null ? null : new URL(location, url).href,
    };
  }

  /** Follows redirects until the next target begins with `until`, or a response is not a redirect. */
  async follow(page: Page, until?: string): Promise<Page> {
    let at = page;
    for (let hops = 0; hops < 20; hops++) {
      if (at.location === null || (until !== undefined && at.location.startsWith(until))) return at;
      at = await this.open(at.location);
    }
    throw new Error(`redirects go round at ${at.url}`);
  }

  /** Names of the cookies that are kept. */
  cookieNames(): string[] {
    return this.#cookies.map(({ name }) => name);
  }

  cookie(name: string): Cookie | undefined {
    return this.#cookies.find((cookie) => cookie.name === name);
  }

  /** Sets a cookie, as a user with developer tools can; null deletes it. */
  setCookie(origin: string, name: string, value: string | null): void {
    this.#cookies = this.#cookies.filter((cookie) => cookie.name !== name);
    if (value !== null) this.#cookies.push({ origin, name, value, path: '/', field: '' });
  }

  #keep(url: URL, field: string): void {
    const [pair = '', ...attributes] = field.split(/; */);
    const name = pair.slice(0, pair.indexOf('='));
    const value = pair.slice(pair.indexOf('=') + 1);
    const attribute = (wanted: string) =>
      attributes.find((text) => text.toLowerCase().startsWith(`${wanted}=`))?.slice(wanted.length + 1);
    const path = attribute('path') ?? '/';
    const isSame = (cookie: Cookie) => cookie.origin === url.origin && cookie.name === name && cookie.path === path;
    this.#cookies = this.#cookies.filter((cookie) => !isSame(cookie));
    const expires = attribute('expires');
    if (attribute('max-age') === '0' || (expires !== undefined && Date.parse(expires) < Date.now())) return;
    this.#cookies.push({ origin: url.origin, name, value, path, field });
  }
}
