//! The routes of the API and the document that describes them, made together: a route that is
//! served is in the document.

use axum::Router;
use axum::routing::MethodRouter;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ApiState;

/// A list, in the envelope that lists of the API have.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed<T> {
    /// `list`.
    object: &'static str,
    /// What is in it.
    data: Vec<T>,
    /// Whether there is more.
    more: bool,
}

impl<T> Listed<T> {
    pub(super) fn new(data: Vec<T>, more: bool) -> Self {
        Self { object: "list", data, more }
    }

    /// Returns the first ones of a list, of which one more than those was asked for.
    pub(super) fn first(mut data: Vec<T>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = data.len() > limit;
        data.truncate(limit);
        Self::new(data, more)
    }
}

/// Something that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DeletedView {
    /// Its id.
    id: String,
    /// What it was.
    object: &'static str,
    /// True.
    deleted: bool,
}

impl DeletedView {
    pub(super) fn new(id: String, object: &'static str) -> Self {
        Self { id, object, deleted: true }
    }
}

/// Returns the schema of a type.
type SchemaOf = fn(&mut SchemaGenerator) -> schemars::Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

/// What a request or an answer consists of.
enum Payload {
    Json(SchemaOf),
    Bytes,
}

/// What a route does, for the document.
pub(super) struct RouteOperation {
    tag: &'static str,
    summary: &'static str,
    query: Option<SchemaOf>,
    headers: &'static [(&'static str, &'static str)],
    takes: Option<Payload>,
    answers: Option<Payload>,
    status: &'static str,
    streams: bool,
    needs_key: bool,
}

impl RouteOperation {
    pub(super) fn new(tag: &'static str, summary: &'static str) -> Self {
        Self {
            tag,
            summary,
            query: None,
            headers: &[],
            takes: None,
            answers: None,
            status: "200",
            streams: false,
            needs_key: true,
        }
    }

    /// The parameters of its query.
    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(schema_of::<T>), ..self }
    }

    /// Headers that it reads: names and what they mean.
    pub(super) fn headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    /// The JSON that it takes.
    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Self { takes: Some(Payload::Json(schema_of::<T>)), ..self }
    }

    /// It takes bytes.
    pub(super) fn takes_bytes(self) -> Self {
        Self { takes: Some(Payload::Bytes), ..self }
    }

    /// The JSON that it answers.
    pub(super) fn answers<T: JsonSchema>(self) -> Self {
        Self { answers: Some(Payload::Json(schema_of::<T>)), ..self }
    }

    /// It answers bytes.
    pub(super) fn answers_bytes(self) -> Self {
        Self { answers: Some(Payload::Bytes), ..self }
    }

    /// The status of an answer that is not a failure.
    pub(super) fn status(self, status: &'static str) -> Self {
        Self { status, ..self }
    }

    /// It can answer with a stream of events.
    pub(super) fn streams(self) -> Self {
        Self { streams: true, ..self }
    }

    /// It needs no key.
    pub(super) fn without_key(self) -> Self {
        Self { needs_key: false, ..self }
    }
}

/// Routes, and what their description is made of. The description itself takes megabytes while it is
/// made, which a gateway that nobody asks for it does not spend.
pub(super) struct DescribedRoutes {
    router: Router<ApiState>,
    operations: Vec<(&'static str, &'static str, RouteOperation)>,
}

impl DescribedRoutes {
    pub(super) fn new() -> Self {
        Self { router: Router::new(), operations: Vec::new() }
    }

    pub(super) fn get(
        self,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.add("get", path, route, operation)
    }

    pub(super) fn post(
        self,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.add("post", path, route, operation)
    }

    pub(super) fn put(
        self,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.add("put", path, route, operation)
    }

    pub(super) fn patch(
        self,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.add("patch", path, route, operation)
    }

    pub(super) fn delete(
        self,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.add("delete", path, route, operation)
    }

    fn add(
        mut self,
        method: &'static str,
        path: &'static str,
        route: MethodRouter<ApiState>,
        operation: RouteOperation,
    ) -> Self {
        self.operations.push((method, path, operation));
        Self { router: self.router.route(path, route), ..self }
    }

    /// Returns the routes.
    pub(super) fn router(self) -> Router<ApiState> {
        self.router
    }

    /// Returns the document that describes them.
    pub(super) fn document(self) -> Value {
        let mut describer = RouteDescriber::new();
        for (method, path, operation) in self.operations {
            describer.add(method, path, operation);
        }
        describer.finish()
    }
}

/// Makes the document.
struct RouteDescriber {
    paths: Map<String, Value>,
    generator: SchemaGenerator,
}

impl RouteDescriber {
    fn new() -> Self {
        let generator = SchemaSettings::openapi3().into_generator();
        Self { paths: Map::new(), generator }
    }

    fn add(&mut self, method: &str, path: &str, operation: RouteOperation) {
        let described = self.describe(method, path, operation);
        let entry = self.paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        entry[method] = described;
    }

    fn finish(mut self) -> Value {
        // A type with a name becomes a definition, which is what all failures refer to.
        schema_of::<ErrorBody>(&mut self.generator);
        let schemas = self.generator.take_definitions(true);
        json!({
            "openapi": "3.0.3",
            "info": {
                "title": "Vestal gateway",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "One profile's agent and its durable sandboxes over HTTP. Every failure has the body of ErrorBody.",
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "http://127.0.0.1:8642" }],
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            },
            "security": [{ "key": [] }],
        })
    }

    fn describe(&mut self, method: &str, path: &str, operation: RouteOperation) -> Value {
        let mut parameters: Vec<Value> = path_names(path)
            .map(|name| {
                json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
            })
            .collect();
        if let Some(query) = operation.query {
            parameters.extend(Self::query_parameters(query));
        }
        parameters.extend(operation.headers.iter().map(|(name, meaning)| {
            let schema = json!({ "type": "string" });
            json!({ "name": name, "in": "header", "description": meaning, "schema": schema })
        }));
        let mut content = Map::new();
        match &operation.answers {
            Some(Payload::Json(schema)) => {
                let schema = schema(&mut self.generator);
                content.insert("application/json".to_owned(), json!({ "schema": schema }));
            }
            Some(Payload::Bytes) => {
                content.insert("application/octet-stream".to_owned(), bytes());
            }
            None => {}
        }
        if operation.streams {
            let schema = json!({ "schema": { "type": "string" } });
            content.insert("text/event-stream".to_owned(), schema);
        }
        let failure = json!({ "$ref": "#/components/schemas/ErrorBody" });
        let mut described = json!({
            "operationId": operation_id(method, path),
            "summary": operation.summary,
            "tags": [operation.tag],
            "responses": {
                operation.status: { "description": "Done", "content": content },
                "default": {
                    "description": "A failure",
                    "content": { "application/json": { "schema": failure } },
                },
            },
        });
        if !parameters.is_empty() {
            described["parameters"] = json!(parameters);
        }
        if let Some(takes) = operation.takes {
            let content = match takes {
                Payload::Json(schema) => {
                    let schema = schema(&mut self.generator);
                    json!({ "application/json": { "schema": schema } })
                }
                Payload::Bytes => json!({ "application/octet-stream": bytes() }),
            };
            described["requestBody"] = json!({ "required": true, "content": content });
        }
        if !operation.needs_key {
            described["security"] = json!([]);
        }
        described
    }

    /// Returns the members of a type as parameters.
    fn query_parameters(query: SchemaOf) -> Vec<Value> {
        // In a generator of its own: these types are not schemas of the document.
        let mut own = SchemaSettings::openapi3()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator();
        let schema = json!(query(&mut own));
        let required: Vec<&str> = schema["required"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let members = schema["properties"].as_object().cloned().unwrap_or_default();
        members
            .into_iter()
            .map(|(name, mut schema)| {
                let description = schema.as_object_mut().and_then(|it| it.remove("description"));
                json!({
                    "name": name, "in": "query", "required": required.contains(&name.as_str()),
                    "description": description, "schema": schema,
                })
            })
            .collect()
    }
}

fn bytes() -> Value {
    json!({ "schema": { "type": "string", "format": "binary" } })
}

/// Returns the names of the parameters in a path.
fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns a name for an operation that stays the same.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(['/', '.']).filter(|part| !part.is_empty());
    let words = words.map(|part| part.trim_matches(['{', '}']).replace('-', "_"));
    std::iter::once(method.to_owned()).chain(words).collect::<Vec<_>>().join("_")
}

/// Why a request was not answered.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ErrorBody {
    error: ErrorDetails,
}

/// What went wrong.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ErrorDetails {
    /// What happened and what to do.
    message: String,
    /// The kind of it, as `invalid_request_error`.
    r#type: String,
    /// A name for it that stays the same.
    code: String,
    /// The member of the request that is wrong.
    param: Option<String>,
}
