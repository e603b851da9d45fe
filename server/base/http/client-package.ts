/** The clients that the server hands out, so that agents need neither a clone nor a registry: `npm install ADDRESS`, and weir.py. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { weirCommand } from '../command/name.ts';
import { release } from '../files/build.ts';
import { isSafeUrl } from '../net/loopback.ts';
import { isKnown } from './conditional.ts';
import type { Exchange } from './exchange.ts';

const TYPE = 'application/gzip';

interface Install {
  /** URL of the package. */
  address: string;
  /** Subresource integrity, as npm writes it into the lock file. */
  integrity: string;
}

export class ClientPackage {
  /** Path with the release and a hash of the bytes, because npm and npx cache a package by its address. */
  readonly path: string;
  /** For pages; null over plain http from another machine, where anyone on the way could replace the package. */
  readonly install: Install | null;
  /** How a person runs a command of the client on any machine; without `install`, in the directory of Weir. */
  readonly command: string;
  /** GET /client.tgz: the same bytes, which change with the release. */
  readonly serveCurrent: (exchange: Exchange) => void;
  /** GET /clients/weir.py */
  readonly servePython: (exchange: Exchange) => void;
  readonly #bytes: Buffer;

  /** @param build folder of the build, which made the archive. Throws when it is missing: the build is then incomplete. */
  constructor(publicUrl: string, build: string) {
    this.#bytes = readFileSync(join(build, 'client.tgz'));
    const hash = hashOf(this.#bytes);
    this.serveCurrent = serving(TYPE, this.#bytes);
    this.servePython = serving('text/x-python; charset=utf-8', readFileSync(join(build, 'views/clients/weir.py')));
    this.path = `/client-${release()}-${hash}.tgz`;
    const integrity = `sha512-${createHash('sha512').update(this.#bytes).digest('base64')}`;
    this.install = isSafeUrl(new URL(publicUrl)) ? { address: `${publicUrl}${this.path}`, integrity } : null;
    this.command = this.install === null ? weirCommand() : `npx ${this.install.address}`;
  }

  /** GET /client-RELEASE-HASH.tgz */
  readonly serve = (exchange: Exchange): void => {
    exchange.cacheControl = 'public, max-age=31536000, immutable';
    exchange.answer(200, TYPE, this.#bytes);
  };

  /** What the 404 for the package of another release says; undefined for any other path. */
  whyMissing(path: string): string | undefined {
    if (!/^\/client-[^/]+\.tgz$/.test(path)) return undefined;
    return `This server has another release of the client: ${this.path}.`;
  }
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 12);
}

/** Answers with bytes that change with the release: 304 when the client has these. */
function serving(type: string, bytes: Buffer): (exchange: Exchange) => void {
  const tag = `"${hashOf(bytes)}"`;
  return (exchange) => {
    exchange.cacheControl = 'no-cache';
    exchange.setHeader('etag', tag);
    if (isKnown(exchange, tag)) exchange.answer(304, type, '');
    else exchange.answer(200, type, bytes);
  };
}
