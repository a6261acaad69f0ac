// The API, shown from its OpenAPI description. Everything is text, never markup.

import * as service from "./service.js";
import { $, element } from "./shared.js";

function resolved(schema, all) {
  return schema?.$ref ? all[schema.$ref.split("/").at(-1)] : schema;
}

// A schema in a few words: "text", "number, at most 10000", "list of number", "OneName".
function typeInWords(schema, all) {
  if (!schema || Object.keys(schema).length === 0) return "anything";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map((one) => typeInWords(one, all)).join(" or ");
  if (schema.prefixItems) return `[${schema.prefixItems.map((one) => typeInWords(one, all)).join(", ")}]`;
  if (schema.type === "array") return `list of ${typeInWords(schema.items, all)}`;
  const limits = [
    schema.minimum !== undefined && `at least ${schema.minimum}`,
    schema.maximum !== undefined && `at most ${schema.maximum}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
  ].filter(Boolean);
  const kind = schema.contentEncoding ?? schema.format ?? { string: "text", null: "nothing" }[schema.type] ?? schema.type;
  return [kind, ...limits].join(", ");
}

function fieldTable(schema, all) {
  const wanted = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([name, one]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("code", { textContent: name })),
      element("td", { textContent: typeInWords(one, all) + (wanted.has(name) ? ", required" : "") }),
      element("td", { textContent: one.description ?? "" }),
    ));
  return element("table", {}, element("tbody", {}, ...rows));
}

function example(method, path, operation) {
  const parts = [`curl -H "Authorization: Bearer $TOKEN" -X ${method.toUpperCase()}`];
  const body = operation.requestBody?.content ?? {};
  if (body["multipart/form-data"]) parts.push("-F image=@picture.jpg");
  else if (body["application/json"]) parts.push("-H content-type:application/json -d '{…}'");
  return `${parts.join(" ")} ${location.origin}${path}`;
}

function operationPart(path, method, operation, all) {
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  const body = resolved(operation.requestBody?.content?.["application/json"]?.schema, all);
  const parts = [element("p", { textContent: operation.description ?? "" })];
  const queries = (operation.parameters ?? []).map((one) => [one.name, { ...one.schema, description: one.description }]);
  if (queries.length) {
    parts.push(element("h2", { textContent: "Query and headers" }), fieldTable({ properties: Object.fromEntries(queries) }, all));
  }
  if (body) {
    const kinds = Object.keys(operation.requestBody.content).join(", ");
    parts.push(element("h2", { textContent: `Body (${kinds})` }), fieldTable(body, all));
  }
  if (answer) {
    const row = resolved(answer.type === "array" ? answer.items : answer, all);
    parts.push(element("h2", { textContent: `Answer: ${typeInWords(answer, all)}` }));
    if (row?.properties) parts.push(fieldTable(row, all));
  }
  parts.push(element("pre", { tabIndex: 0 }, element("code", { textContent: example(method, path, operation) })));
  return element(
    "details",
    {},
    element("summary", {}, element("code", { textContent: `${method.toUpperCase()} ${path}` })),
    ...parts,
  );
}

try {
  const { paths, components } = await service.description();
  const made = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => operationPart(path, method, one, components.schemas)));
  $("operations").replaceChildren(...made);
} catch {
  $("operations").replaceChildren(element("p", { textContent: "Open the address that everlearn serve printed first." }));
}
