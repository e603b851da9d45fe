/** One error for all that keeps the embedded Postgres from running. */
import { OperatorError } from '../../model/fault.ts';

/** The embedded Postgres cannot be used; the message gives the reason and the fix. */
export class EmbeddedPostgresError extends OperatorError {}
