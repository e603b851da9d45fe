/** GET /api/v1/openapi.json. */
import { z } from 'zod';
import { openOperation } from '../operation.ts';

/**
 * Serves the document as /api/v1/openapi.json.
 * @param read returns the document as JSON
 */
export function openApiOperations(read: () => string) {
  return {
    showOpenApi: openOperation({
      isConstant: true,
      answers: { 200: z.looseObject({ openapi: z.string().describe('OpenAPI version') }) },
      handle: async () => ({ kind: 'encoded', status: 200, contentType: 'application/json', content: read() }),
    }),
  };
}
