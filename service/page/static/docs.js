// Starts Swagger UI at /docs.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  // Swagger UI would make up a value for each optional field of a form, and send it.
  responseInterceptor: (response) => {
    if (response.url.endsWith("openapi.json")) {
      const spec = JSON.parse(response.text);
      for (const [name, schema] of Object.entries(spec.components.schemas)) {
        if (!name.endsWith("Form")) continue;
        for (const field of Object.values(schema.properties)) {
          if (!("default" in field) && field.format !== "binary") field.examples = [""];
        }
      }
      response.text = JSON.stringify(spec);
    }
    return response;
  },
  // Swagger UI sends the fields of a form that were left empty; an empty `split` selects no image.
  requestInterceptor: (request) => {
    if (request.body instanceof FormData) {
      for (const [name, value] of [...request.body]) {
        if (value === "") request.body.delete(name);
      }
    }
    return request;
  },
});
