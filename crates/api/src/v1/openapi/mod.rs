//! The OpenAPI document of the native API: its operations are the rows of the routes, and its schemas the types of
//! `tidegate_core::v1`. A test compares it with `docs/openapi.json`.

mod examples;
mod references;
mod responses;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;
use tidegate_core::openapi::ApiSchemas;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, OperationBuilder, PathItem, PathItemBuilder, Paths};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, Content, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, RefOr, Required,
};

use super::routes::{BodyShape, OperationRow, TAGS, headers, parameters};

const DESCRIPTION: &str = include_str!("description.md");
/// The name of the way to authenticate.
const API_KEY: &str = "api_key";

/// The document as JSON.
pub(crate) fn document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json().to_string().into());
    DOCUMENT.clone()
}

fn json() -> Value {
    let mut document = serde_json::to_value(build()).unwrap_or_default();
    for name in headers::required() {
        document["components"]["headers"][name]["required"] = Value::Bool(true);
    }
    references::remove_unused_schemas(&mut document);
    document
}

fn build() -> OpenApi {
    let mut components = ApiSchemas::openapi().components.unwrap_or_default();
    headers::add_to(&mut components);
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key, `tg_KEYID_SECRET`, or a token of the lmstfy wire.",
        ))
        .build();
    components.add_security_scheme(API_KEY, SecurityScheme::Http(key));
    let mut paths = Paths::new();
    for (tag, _, operations) in &TAGS {
        for row in *operations {
            let operation = operation_of(row, tag, &mut components);
            add(&mut paths, row, operation);
        }
    }
    let licence = LicenseBuilder::new()
        .name("MIT OR Apache-2.0")
        .identifier(Some("MIT OR Apache-2.0"));
    let info = InfoBuilder::new()
        .title("Tidegate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(licence.build()));
    let tags = TAGS.map(|(name, description, _)| {
        TagBuilder::new()
            .name(name)
            .description(Some(description))
            .build()
    });
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths)
        .components(Some(components))
        .tags(Some(tags))
        .build()
}

/// Adds an operation to its path, which is added first if it is missing.
fn add(paths: &mut Paths, row: &OperationRow, operation: Operation) {
    let new = || {
        let parameters = parameters::of_path(row.path);
        PathItemBuilder::new().parameters(Some(parameters)).build()
    };
    let path = paths.paths.entry(row.path.to_owned()).or_insert_with(new);
    path.merge_operations(PathItem::new(row.method.clone(), operation));
}

fn operation_of(row: &OperationRow, tag: &str, components: &mut Components) -> Operation {
    let scope = row.needs.scope.name();
    let mut operation = OperationBuilder::new()
        .tag(tag)
        .operation_id(Some(row.id))
        .summary(Some(row.summary))
        .description(Some(format!(
            "{} Needs the scope `{scope}`.",
            row.description
        )))
        .request_body(body_of(row.body))
        .security(SecurityRequirement::new(API_KEY, [scope]))
        .responses(responses::of_operation(row, components));
    for parameter in (row.parameters)() {
        operation = operation.parameter(parameter);
    }
    operation.build()
}

fn body_of(shape: BodyShape) -> Option<RequestBody> {
    let body = match shape {
        BodyShape::Nothing => return None,
        BodyShape::Json(schema) => {
            let content = responses::json_content(schema);
            RequestBodyBuilder::new()
                .content("application/json", content)
                .required(Some(Required::True))
        }
        BodyShape::Payload => {
            let text = ObjectBuilder::new().schema_type(Type::String);
            let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
            let bytes = None::<RefOr<Schema>>;
            RequestBodyBuilder::new()
                .description(Some("The payload. It may be empty."))
                .content("application/json", Content::new(Some(any)))
                .content("text/plain", Content::new(Some(text)))
                .content("application/octet-stream", Content::new(bytes.clone()))
                .content("*/*", Content::new(bytes))
                .required(Some(Required::False))
        }
    };
    Some(body.build())
}
