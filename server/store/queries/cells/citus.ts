/**
 * A schema of home's database on a Citus cluster: how it is made, which node has it, and what Weir adds on that node. See cells/address.ts.
 */
import { advisoryLocks, takeLock } from '../../advisory-locks.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { copyInto } from '../../copy/rows.ts';
import { arrayOf } from '../../sql.ts';

/** Name of the schema with the tables of a cell, which Citus moves together. */
export function schemaOf(cell: number): string {
  return `weir_cell_${cell}`;
}

/** Name of the schema, on the node that has these tables, with views of them under their names. */
export function nodeSchemaOf(cell: number): string {
  return `${schemaOf(cell)}_node`;
}

/** Why the database cannot have such a cell; null: it can. */
export async function readCitusFault({ query }: Queries): Promise<string | null> {
  const extension = await query({ text: `select from pg_extension where extname = 'citus'` });
  if (extension.length === 0)
    return 'The database of the settings has no Citus extension: run create extension citus on each node, or add another Postgres server by its connection string.';
  const coordinator = await query({ text: 'select from pg_dist_local_group where groupid = 0' });
  if (coordinator.length === 0)
    return 'The database of the settings is on a worker node: point DATABASE_URL at the coordinator of Citus.';
  const nodes = await query({
    text: `select from pg_dist_node where isactive and shouldhaveshards and noderole = 'primary'`,
  });
  if (nodes.length === 0) return 'The Citus cluster has no node for shards: add one with citus_add_node.';
  return null;
}

/** Creates the schema, for a migration. It is distributed when its tables are complete. */
export async function createCitusSchema({ transaction }: Pick<Database, 'transaction'>, cell: number): Promise<void> {
  await transaction(async (query) => {
    await query({ text: 'set local citus.enable_schema_based_sharding to off' });
    await query({ text: `create schema ${schemaOf(cell)}` });
  });
}

/** A drop waits for the statements on each of some forty tables, and two nodes commit it. */
const DROP_TIMEOUT_MS = 60_000;

/** Drops the schema of a cell with all its tables, if it exists. */
export async function dropCitusSchema({ query }: Queries, cell: number): Promise<void> {
  await query({ text: `drop schema if exists ${schemaOf(cell)} cascade`, timeoutMs: DROP_TIMEOUT_MS });
}

/**
 * Removes what Citus cannot distribute: triggers, and partitions of partitions. Finished deliveries become one table. Call in the schema of
 * the cell.
 */
export async function flatten(query: Query): Promise<void> {
  await query({
    text: `
      do $$
      declare
        one record;
        bound text := (select pg_get_expr(relpartbound, oid) from pg_class where oid = 'deliveries_finished'::regclass);
      begin
        for one in
          select tgname, tgrelid::regclass as of from pg_trigger join pg_class on pg_class.oid = tgrelid
          where relnamespace = current_schema()::regnamespace and not tgisinternal and tgparentid = 0
        loop
          execute format('drop trigger %I on %s', one.tgname, one.of);
        end loop;
        alter table deliveries detach partition deliveries_finished;
        alter table deliveries_finished rename to deliveries_by_day;
        create table deliveries_finished (like deliveries_by_day including all);
        drop table deliveries_by_day;
        execute 'alter table deliveries attach partition deliveries_finished ' || bound;
      end
      $$`,
  });
}

/** Distributes the tables: from now on one node has them. */
export async function distribute(query: Query, cell: number): Promise<void> {
  await query({ text: 'select citus_schema_distribute($1::text::regnamespace)', values: [schemaOf(cell)] });
}

/** The node that has the tables of a cell. */
export interface CitusNode {
  host: string;
  port: number;
  /** Home's own server. */
  isCoordinator: boolean;
  /** Names on the node of the tables that a view cannot stand for. */
  events: string;
  deliveries: string;
  /** SQL that creates the functions of the triggers in its schema of views. */
  functions: string;
}

const functions = ['delivery_id', 'fan_out_in_order', 'pass_turn', 'free_keys', 'pass_turns_of_agent'];

/** Reads which node has the tables of a cell. Undefined: the schema does not exist. Call at home. */
export async function readCitusNode({ query }: Queries, cell: number): Promise<CitusNode | undefined> {
  const [row] = await query<CitusNode>({
    text: `
      select n.nodename as host, n.nodeport as port, n.groupid = 0 as "isCoordinator",
        max($1 || '.' || c.relname || '_' || s.shardid) filter (where c.relname = 'events') as events,
        max($1 || '.' || c.relname || '_' || s.shardid) filter (where c.relname = 'deliveries') as deliveries,
        (select string_agg(regexp_replace(pg_get_functiondef(oid), 'FUNCTION .*?(?=' || proname || '[(])', 'FUNCTION ' || $2 || '.'), ';')
          from pg_proc where pronamespace = current_schema()::regnamespace and proname = any ($3)) as functions
      from pg_class c
      join pg_dist_shard s on s.logicalrelid = c.oid
      join pg_dist_placement p on p.shardid = s.shardid
      join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
      where c.relnamespace = to_regnamespace($1) and c.relname in ('events', 'deliveries')
      group by 1, 2, 3`,
    values: [schemaOf(cell), nodeSchemaOf(cell), arrayOf(functions)],
  });
  return row;
}

/** The text of a statement for the node. Where Postgres accepts no view, it names the table of the node instead. */
export function onNode(text: string, node: CitusNode): string {
  if (!/pg_partition_tree|tablesample/.test(text)) return text;
  return text.replace(
    /(?<=pg_partition_tree\(')(events|deliveries)(?=')|(?<=from )deliveries(?= tablesample)/g,
    (table) => node[table as 'events' | 'deliveries'],
  );
}

/** The COPY of events on the node. It fails where the view is missing: Citus has moved the tables away and back, and they have no triggers. */
export function copyOnNode(cell: number, { events }: CitusNode): string {
  return `${copyInto(events)} where null::${nodeSchemaOf(cell)}.events is null`;
}

/**
 * Creates the views and triggers of a cell on the node that has its tables, unless they exist; a move to another node leaves them behind. Call
 * with the database of that node.
 *
 * The views let statements run on the node's own tables (shards), without the planner of Citus. The trigger weir_hold makes that safe: it
 * takes the lock that Citus' own writes on a node take, so that a move waits for the transaction, and it refuses writes after a move. It
 * locks one table only, cell_self: a move locks all tables, one after the other, and with two locks each could wait for the other.
 *
 * The other triggers are those of the migrations, which a distributed table cannot have. A cell that orders nothing has them too: for its
 * events and claims they cost a comparison.
 */
export async function prepareNode(
  { transaction }: Pick<Database, 'transaction'>,
  cell: number,
  { functions }: CitusNode,
): Promise<void> {
  const [schema, node] = [schemaOf(cell), nodeSchemaOf(cell)];
  await transaction(async (query) => {
    await takeLock(query, advisoryLocks.copies);
    // A schema without pass_turn was created by an earlier release.
    const found = `select from pg_proc where oid = to_regproc('${node}.pass_turn') and to_regclass('${node}.cell_self') is not null`;
    if ((await query({ text: found })).length > 0) return;
    await query({ text: 'set local citus.enable_ddl_propagation to off' });
    await query({ text: 'set local citus.enable_manual_changes_to_shards to on' });
    await query({
      text: `
        drop schema if exists ${node} cascade;
        create schema ${node};
        create sequence ${node}.order_numbers;
        ${functions};
        do $do$
        declare
          one record;
          held bigint := (select shardid from pg_dist_shard where logicalrelid = '${schema}.cell_self'::regclass);
          here text := format('exists (select from pg_dist_placement join pg_dist_local_group using (groupid) where shardid = %s)', held);
        begin
          execute format($f$
            create function ${node}.hold() returns trigger language plpgsql as $body$
            begin
              perform lock_shard_metadata(5, array[%s]::bigint[]);
              if not %s then
                raise exception 'Citus has moved the schema ${schema} to another node' using errcode = '25006';
              end if;
              return null;
            end
            $body$ $f$, held, here);
          for one in
            select c.relname as name, format('${schema}.%I', c.relname || '_' || s.shardid) as shard
            from pg_dist_shard s join pg_class c on c.oid = s.logicalrelid
            where c.relnamespace = '${schema}'::regnamespace and c.relname !~ '^events_[0-9]{8}$'
          loop
            execute format('create trigger weir_hold before insert or update or delete on %s for each statement execute function ${node}.hold()', one.shard);
            execute format('create view ${node}.%I as select * from %s', one.name, one.shard)
              || case when one.name = 'cell_self' then ' where ' || here else '' end;
          end loop;
          for one in
            select t.*, format('${schema}.%I', t.table_name || '_' || s.shardid) as shard
            from (values
              ('events', 'events_fan_out', 'insert', 'referencing new table as arrived for each statement', 'fan_out_in_order'),
              ('deliveries_live', 'deliveries_pass_turn', 'delete', 'for each row when (old.order_key is not null)', 'pass_turn'),
              ('subscriptions', 'subscriptions_end_order', 'delete', 'for each row when (old.order_id is not null)', 'free_keys'),
              ('subscriptions', 'subscriptions_free_keys', 'update of order_id',
                'for each row when (old.order_id is not null and new.order_id is distinct from old.order_id)', 'free_keys'),
              ('agents', 'agents_pass_turns', 'update of revoked_at',
                'for each row when (old.revoked_at is not null and new.revoked_at is null)', 'pass_turns_of_agent')
            ) t (table_name, name, event, condition, function)
            join pg_dist_shard s on s.logicalrelid = ('${schema}.' || t.table_name)::regclass
          loop
            execute format('create trigger %I after %s on %s %s execute function ${node}.%I()', one.name, one.event, one.shard, one.condition, one.function);
          end loop;
        end
        $do$;
        -- Behind what was numbered on the node that the schema has left.
        select setval('${node}.order_numbers', coalesce(max(order_number), 0) + 1) from ${node}.deliveries_live where order_key is not null`,
    });
  });
}
