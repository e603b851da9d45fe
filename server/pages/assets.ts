/** Style sheet and scripts: read and compressed once, named by a content hash, cached by browsers without expiry. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Exchange } from '../http/exchange.ts';
import { problem } from '../http/problem.ts';
import { acceptedCoding } from './compress.ts';

interface Asset {
  contentType: string;
  plain: Buffer;
  gzip: Buffer;
  br: Buffer;
}

const require = createRequire(import.meta.url);
const own = (name: string) => new URL(`../../views/assets/${name}`, import.meta.url);

/** Public name, location and content type. */
const sources = [
  ['weir.css', own('weir.css'), 'text/css; charset=utf-8'],
  ['weir.js', own('weir.js'), 'text/javascript; charset=utf-8'],
  ['icon.svg', own('icon.svg'), 'image/svg+xml'],
  ['htmx.js', require.resolve('htmx.org/dist/htmx.min.js'), 'text/javascript; charset=utf-8'],
] as const;

type AssetName = (typeof sources)[number][0];

export class Assets {
  readonly #byPath = new Map<string, Asset>();
  readonly #paths = new Map<string, string>();

  /** Reads all assets. Throws when a file is missing: the installation is then broken. */
  constructor() {
    for (const [name, place, contentType] of sources) {
      const plain = readFileSync(place);
      const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 12);
      const path = `${hash}-${name}`;
      this.#paths.set(name, `/assets/${path}`);
      const gzip = gzipSync(plain, { level: 9 });
      const br = brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
      this.#byPath.set(path, { contentType, plain, gzip, br });
    }
  }

  /** The URL path of an asset, for use in pages. */
  path(name: AssetName): string {
    return this.#paths.get(name)!;
  }

  /** GET /assets/:name */
  readonly serve = (exchange: Exchange): void => {
    const asset = this.#byPath.get(exchange.parameters[0]!);
    if (asset === undefined) return exchange.problem(problem('not_found'));
    const coding = acceptedCoding(exchange);
    exchange.cacheControl = 'public, max-age=31536000, immutable';
    exchange.setHeader('vary', 'accept-encoding');
    if (coding !== null) exchange.setHeader('content-encoding', coding);
    exchange.answer(200, asset.contentType, coding === null ? asset.plain : asset[coding]);
  };
}
