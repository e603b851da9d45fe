/** The client package that the server hands out, so that agents need neither a clone nor a registry: `npm install ADDRESS`. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { weirCommand } from '../command/name.ts';
import { release } from '../files/build.ts';
import { isSafeUrl } from '../net/loopback.ts';
import { isKnown } from './conditional.ts';
import type { Exchange } from './exchange.ts';

const TYPE = 'application/gzip';

/** What a project installs. */
export interface Install {
  /** URL of the package. */
  address: string;
  /** Subresource integrity, as npm writes it into the lock file. */
  integrity: string;
}

export class ClientPackage {
  /** Path with the release and a hash of the bytes: npm and npx keep a package by its address. */
  readonly path: string;
  /** For pages; null over plain http from another machine, where anyone on the way could replace the package. */
  readonly install: Install | null;
  /** How a person runs a command of the client on any machine; without `install`, in the directory of Weir. */
  readonly command: string;
  readonly #bytes: Buffer;
  readonly #tag: string;

  /** @param build folder of the build, which made the archive. Throws when it is missing: the build is then incomplete. */
  constructor(publicUrl: string, build: string) {
    this.#bytes = readFileSync(join(build, 'client.tgz'));
    const hash = createHash('sha256').update(this.#bytes).digest('hex').slice(0, 12);
    this.path = `/client-${release()}-${hash}.tgz`;
    const integrity = `sha512-${createHash('sha512').update(this.#bytes).digest('base64')}`;
    this.install = isSafeUrl(new URL(publicUrl)) ? { address: `${publicUrl}${this.path}`, integrity } : null;
    this.command = this.install === null ? weirCommand() : `npx ${this.install.address}`;
    this.#tag = `"${hash}"`;
  }

  /** GET /client-RELEASE-HASH.tgz */
  readonly serve = (exchange: Exchange): void => {
    exchange.cacheControl = 'public, max-age=31536000, immutable';
    exchange.answer(200, TYPE, this.#bytes);
  };

  /** GET /client.tgz: the same bytes, which change with the release. */
  readonly serveCurrent = (exchange: Exchange): void => {
    exchange.cacheControl = 'no-cache';
    exchange.setHeader('etag', this.#tag);
    if (isKnown(exchange, this.#tag)) exchange.answer(304, TYPE, '');
    else exchange.answer(200, TYPE, this.#bytes);
  };

  /** What the 404 for the package of another release says; undefined for any other path. */
  whyMissing(path: string): string | undefined {
    if (!/^\/client-[^/]+\.tgz$/.test(path)) return undefined;
    return `This server has another release of the client: ${this.path}.`;
  }
}
