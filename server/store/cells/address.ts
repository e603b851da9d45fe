/** Where a cell is. */
import { formatConninfo, parseConninfo } from '../../base/net/conninfo.ts';
import { onServer, withSchema } from '../connect/conninfo.ts';
import type { Queries } from '../connect/pool.ts';
import type { CellRow } from '../queries/cells/cells.ts';
import { type CitusNode, nodeSchemaOf, readCitusNode, schemaOf } from '../queries/cells/citus.ts';
import { unseal } from '../secrets/seal.ts';

/** What is sealed instead of a connection string: the cell is a schema on home's Citus cluster. */
export const ON_CITUS = 'citus';

/** Home, through which its cells on Citus are found. */
export interface HomeAddress {
  conninfo: string;
  database: Queries;
}

export interface CellAddress {
  kind: 'postgres' | 'citus';
  /** Connection string for its statements; empty: see `fault`. */
  conninfo: string;
  /** Connection string for what creates and drops its tables. */
  tables: string;
  /** The node that has a cell on Citus; null: the cell is not on Citus. */
  node: CitusNode | null;
  /** Why it is not known where the cell is. */
  fault: string | null;
}

const LOCKED = 'its connection string cannot be read with SECRETS_KEY';
/** An earlier release stored the text unchanged, and passed it to libpq. */
const UNREADABLE = 'its connection string cannot be understood: give it again with weir cell update';

/** Reads where a cell is. Never rejects. @param keys keys that seal connection strings, current first */
export async function addressOf(
  { number, id, sealed }: Pick<CellRow, 'number' | 'id' | 'sealed'>,
  keys: readonly Buffer[],
  home: HomeAddress,
): Promise<CellAddress> {
  const text = unseal(sealed, keys, id)?.toString();
  if (text === ON_CITUS) return onCitus(number, home);
  const parameters = text === undefined ? null : parseConninfo(text);
  const conninfo = parameters === null ? '' : formatConninfo(parameters);
  const fault = parameters === null ? (text === undefined ? LOCKED : UNREADABLE) : null;
  return { kind: 'postgres', conninfo, tables: conninfo, node: null, fault };
}

/**
 * Statements go directly to the node that has the schema. The coordinator would add 11 us a row and 2 ms a COPY, and cannot plan most
 * statements, such as claims and deduplication. Only statements that create or drop tables go through the coordinator.
 */
async function onCitus(number: number, home: HomeAddress): Promise<CellAddress> {
  const tables = citusTables(home.conninfo, number);
  const unknown = (fault: string): CellAddress => ({ kind: 'citus', conninfo: '', tables, node: null, fault });
  try {
    const node = await readCitusNode(home.database, number);
    if (node === undefined) return unknown(`the Citus cluster has no schema ${schemaOf(number)}`);
    const server = node.isCoordinator ? home.conninfo : onServer(home.conninfo, node);
    return { kind: 'citus', conninfo: withSchema(server, nodeSchemaOf(number)), tables, node, fault: null };
  } catch (error) {
    return unknown(`Citus does not say which node has it: ${(error as Error).message}`);
  }
}

/** Connection string for what creates and drops the tables of a cell on Citus. */
export function citusTables(home: string, number: number): string {
  return withSchema(home, schemaOf(number));
}
