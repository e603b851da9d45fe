/** Cells: places for the events of some webhooks, on other Postgres servers or on a Citus cluster. */
import { z } from 'zod';
import { between, createdAt, nameText, secretText, textOrNull, timeOf, timeOrNull } from './fields.ts';
import { currentPassword } from './users.ts';

const CELL_NUMBER_MAX = 4_095;
const CONNINFO_CHARACTERS_MAX = 4_000;

export const cellNumber = between(0, CELL_NUMBER_MAX);

/** A name that is not a number, so that a command can take either. */
const cellName = nameText.refine((name) => !/^\d+$/.test(name), 'A name must not be a number.');

const connection = secretText(CONNINFO_CHARACTERS_MAX).describe(
  'connection string of the server (URI or key=value), stored sealed and never shown',
);

export const cellInput = {
  create: z.strictObject({
    name: cellName.describe('1 to 200 characters, not a number'),
    database: connection.optional(),
    citus: z
      .literal(true)
      .optional()
      .describe('instead of database: a schema of the database of the settings, which is on a Citus coordinator'),
    current_password: currentPassword,
  }),
  update: z.strictObject({
    name: cellName.optional().describe('new name'),
    database: connection.optional(),
    accept_restored: z
      .literal(true)
      .optional()
      .describe('uses the cell again after its server was restored from a backup: what the backup lacks is lost'),
    current_password: currentPassword,
  }),
  move: z.strictObject({
    cell: cellNumber.describe('number of the cell that gets the new events; 0: home'),
  }),
};

/** A cell that an answer lacks. */
const cellAwaySchema = z.object({
  number: cellNumber.describe('its number'),
  name: z.string().describe('its name'),
  since: timeOf('since when it cannot be reached'),
});
export type CellAway = z.output<typeof cellAwaySchema>;

/** A member of every answer over all cells. */
export const cellsAway = z
  .array(cellAwaySchema)
  .optional()
  .describe('cells that cannot be reached, and what they have is not in this answer; absent: none');

export const cellSchema = z.object({
  number: cellNumber.describe('0: home, the database of the settings'),
  name: z.string().describe('name of the cell'),
  kind: z
    .enum(['postgres', 'citus'])
    .describe('citus: a schema of the database of the settings, on one node of its cluster'),
  address: z.string().describe('host, port and database, without user and password'),
  state: z
    .enum(['adding', 'active', 'draining'])
    .describe(
      'adding: it is not used yet, or its adding or removal was interrupted: remove it; draining: it gets no new events',
    ),
  away: textOrNull('why it cannot be used now, or stores nothing; null: it is used'),
  webhooks: z.int().describe('webhooks whose new events are stored there'),
  waiting: z.int().describe('changes of webhooks and agents that it does not have yet'),
  events: z.number().nullable().describe('stored events, about; null: it is away'),
  bytes: z.number().nullable().describe('size of its database; null: it is away'),
  oldest_at: timeOrNull('time of its oldest event; null: it has none, or is away'),
  replication_lag_bytes: z.number().nullable().describe('of its standby that is farthest behind; null: it has none'),
  empty_at: timeOrNull('draining: when retention will have removed its last event'),
  created_at: createdAt.nullable().describe('when it was added; null: home'),
});
export type CellView = z.output<typeof cellSchema>;
