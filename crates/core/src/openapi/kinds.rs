//! The schemas of the ends of relays: a field `kind`, and the fields of that kind.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    Discriminator, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaType, Type,
};

/// Adds the field `kind` to the schema of a structure. A reference to that schema beside one for the field would not
/// do: each of them forbids the fields of the other.
pub(crate) fn with_kind(kind: &str, schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else {
        return schema;
    };
    let field = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .enum_values(Some([kind]))
        .description(Some("The kind."));
    object.properties.insert("kind".to_owned(), field.into());
    object.required.insert(0, "kind".to_owned());
    Schema::Object(object).into()
}

/// One of these schemas: kinds and names.
pub(crate) fn one_of_kinds(description: &str, kinds: &[(&str, String)]) -> RefOr<Schema> {
    let mapping = kinds
        .iter()
        .map(|(kind, name)| (*kind, format!("#/components/schemas/{name}")));
    let schema = OneOfBuilder::new()
        .description(Some(description))
        .discriminator(Some(Discriminator::with_mapping("kind", mapping)));
    let items = kinds.iter().map(|(_, name)| Ref::from_schema_name(name));
    items.fold(schema, OneOfBuilder::item).into()
}
