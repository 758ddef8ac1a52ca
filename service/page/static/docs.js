// Starts Swagger UI at /docs.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
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
