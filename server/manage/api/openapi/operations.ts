/** GET /api/v1/openapi.json and /api/v1/configuration/schema.json. */
import { z } from 'zod';
import { configurationJsonSchema } from '../../../model/configuration.ts';
import { openOperation } from '../operation.ts';

const json = (content: string) => ({ kind: 'encoded', status: 200, contentType: 'application/json', content }) as const;

/**
 * Serves the document as /api/v1/openapi.json.
 * @param read returns the document as JSON
 */
export function openApiOperations(read: () => string) {
  return {
    showOpenApi: openOperation({
      isConstant: true,
      answers: { 200: z.looseObject({ openapi: z.string().describe('OpenAPI version') }) },
      handle: async () => json(read()),
    }),

    showConfigurationSchema: openOperation({
      isConstant: true,
      answers: { 200: z.looseObject({ $schema: z.string().describe('version of JSON Schema') }) },
      handle: async () => json(JSON.stringify(configurationJsonSchema())),
    }),
  };
}
