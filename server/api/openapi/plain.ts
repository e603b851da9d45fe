/** Routes that are no operations, as the document describes them; their schemas stand beside their handlers. */
import type { z } from 'zod';
import { agentDescriptions } from '../../deliveries/described.ts';
import type { ProblemCode } from '../../errors.ts';
import { healthDescriptions } from '../../http/health.ts';
import { ingestDescriptions } from '../../ingest/described.ts';
import type { plainRoutes } from '../routes.ts';

interface PlainDescription {
  /** The body, by its media type; null: any bytes. */
  input?: Readonly<Record<string, z.ZodType | null>>;
  answers: Readonly<Record<number, z.ZodType>>;
  problems: readonly ProblemCode[];
}

/** Null: for browsers, not described. */
export const plainDescriptions: Record<(typeof plainRoutes)[number][2], PlainDescription | null> = {
  ...healthDescriptions,
  ...ingestDescriptions,
  ...agentDescriptions,
  asset: null,
};
