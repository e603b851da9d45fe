/** Maps each row of the tables in manage/api/routes.ts to its handler. */

import { type Cors, isApiPath } from '../../base/http/cors.ts';
import type { Handler, Route } from '../../base/http/route.ts';
import { operationRoutes, pageRoutes, plainRoutes } from '../../manage/api/routes.ts';
import type { Api } from '../../manage/api/serve.ts';
import type { AnonymousLimit } from '../../manage/auth/anonymous.ts';
import type { Person } from '../../manage/auth/person.ts';
import type { Page } from '../../pages/page.ts';
import type { Pages } from '../../pages/serve/serve.ts';

type Handlers = Record<(typeof plainRoutes)[number][2], Handler>;

/** Handlers of the pages and the API. */
interface PeopleHandlers {
  api: Api;
  pages: Pages;
  pageTable: PageTable;
  cors: Cors;
  anonymous: AnonymousLimit;
  /** Path of the client package: a release and a hash. */
  clientPath: string;
}

type PageRow = (typeof pageRoutes)[number];
/** One page for each row of pageRoutes. */
export type PageTable = {
  [Row in PageRow as Row[2]]: Page<Row[3] extends 'anyone' ? Person | null : Person>;
};

/** Builds the route table with handlers; API paths also answer preflights. */
export function routeTable(
  handlers: Handlers,
  { api, pages, pageTable, cors, anonymous, clientPath }: PeopleHandlers,
): Route[] {
  const plain = plainRoutes.map(
    ([method, path, name]): Route => ({
      method,
      path: name === 'clientPackage' ? clientPath : path,
      handle: handlers[name],
      ...(name === 'handshake' && { allows: ['HEAD'] }),
      ...(name === 'handshakeOptions' && { allows: [] }),
    }),
  );
  const managed = operationRoutes.map(
    ([method, path, name, access]): Route => ({
      method,
      path,
      handle: api.handler(name, access),
    }),
  );
  const shown = pageRoutes.map(
    ([method, path, name, access]): Route => ({
      method,
      path,
      handle:
        access === 'anyone'
          ? pages.forAnyone(pageTable[name] as Page<Person | null>)
          : pages.forUsers(access, pageTable[name] as Page),
    }),
  );
  return [...plain, ...managed, ...preflights([...plain, ...managed], cors, anonymous), ...shown];
}

/**
 * OPTIONS for /mcp and everything below /api/. Known paths have their own rows, so that Allow names OPTIONS. Browsers send no credentials
 * with it, so that of an allowed origin is not counted: it must not keep the users behind an address over its limit from their pages.
 */
function preflights(routes: readonly Route[], cors: Cors, anonymous: AnonymousLimit): Route[] {
  const paths = new Set(routes.map(({ path }) => path).filter(isApiPath));
  return [...paths, '/api/*'].map((path) => ({
    method: 'OPTIONS',
    path,
    handle: async (exchange) => {
      const over = cors.isAllowed(exchange) ? null : await anonymous.over(exchange);
      if (over === null) cors.preflight(exchange);
      else exchange.problem(over);
    },
  }));
}
