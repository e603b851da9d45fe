/**
 * The URLs that a sender may have signed. A proxy can end TLS, the sender can write the port that the protocol implies, and the sender's
 * own library can write the query in another way. All have the host of FRONTEND_PUBLIC_API_URL.
 */
import { parse, stringify } from 'node:querystring';
import type { SchemeDefinition } from './definition.ts';

/** Limit on these URLs: a request that does not verify is checked with each. */
export const URLS_MAX = 8;

const PORTS = { http: 80, https: 443 };

/** Path and query as the sender may also have signed them, by `query` of the definition. */
const readings: Readonly<Record<NonNullable<SchemeDefinition['query']>, readonly ((target: string) => string)[]>> = {
  // HubSpot decodes these characters and no others (its page on request validation).
  decoded: [(target) => target.replace(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi, decodeURIComponent)],
  // twilio-node, validateRequest: as the WHATWG URL class writes it, and as the module querystring does.
  escaped: [
    (target) => {
      const { pathname, search } = new URL(`http://host${target}`);
      return pathname + search;
    },
    (target) => {
      const end = target.indexOf('?') + 1;
      return target.slice(0, end) + stringify(parse(target.slice(end)));
    },
  ],
};

/**
 * Returns at most URLS_MAX URLs, the likeliest first.
 * @param url that FRONTEND_PUBLIC_API_URL and the path and query of the request make
 */
export function urlCandidates(url: string, query: SchemeDefinition['query']): string[] {
  const [, protocol, host, port, target] = /^(https?):\/\/(\[[^\]]*\]|[^/?#:]*)(:\d+)?(\/.*)$/s.exec(url) ?? [];
  if (protocol === undefined) return [url];
  const originsOf = (one: 'http' | 'https') => [`${one}://${host}`, `${one}://${host}:${PORTS[one]}`];
  const origins = [
    `${protocol}://${host}${port ?? ''}`,
    ...originsOf(protocol as 'http' | 'https'),
    ...originsOf(protocol === 'https' ? 'http' : 'https'),
  ];
  const others = query === undefined || !target!.includes('?') ? [] : readings[query].map((read) => read(target!));
  const urls = [...origins.map((at) => at + target), ...origins.flatMap((at) => others.map((one) => at + one))];
  return [...new Set(urls)].slice(0, URLS_MAX);
}
