/** Descriptions of the plain routes, which are not operations. Their schemas are next to their handlers. */
import type { z } from 'zod';
import { agentDescriptions } from '../../deliveries/described.ts';
import type { ProblemCode } from '../../errors.ts';
import { healthDescriptions } from '../../http/health.ts';
import { ingestDescriptions } from '../../ingest/described.ts';
import type { plainRoutes } from '../routes.ts';

interface PlainDescription {
  /** Request body by media type; null: any bytes. */
  input?: Readonly<Record<string, z.ZodType | null>>;
  answers: Readonly<Record<number, z.ZodType>>;
  problems: readonly ProblemCode[];
}

/** Null: a route for browsers, not described. */
export const plainDescriptions: Record<(typeof plainRoutes)[number][2], PlainDescription | null> = {
  ...healthDescriptions,
  ...ingestDescriptions,
  ...agentDescriptions,
  asset: null,
};
