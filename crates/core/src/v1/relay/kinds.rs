//! The schemas of the ends of relays: a field `kind`, and the fields of that kind.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    Discriminator, ObjectBuilder, OneOfBuilder, Ref, Schema, SchemaType, Type,
};

/// Adds the field `kind` to the schema of a structure. A reference to that schema beside one for the field would not do:
/// each of them forbids the fields of the other.
pub(super) fn with_kind(kind: &str, schema: RefOr<Schema>) -> RefOr<Schema> {
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
pub(super) fn one_of_kinds(description: &str, kinds: &[(&str, String)]) -> RefOr<Schema> {
    let mapping = kinds
        .iter()
        .map(|(kind, name)| (*kind, format!("#/components/schemas/{name}")));
    let schema = OneOfBuilder::new()
        .description(Some(description))
        .discriminator(Some(Discriminator::with_mapping("kind", mapping)));
    let items = kinds.iter().map(|(_, name)| Ref::from_schema_name(name));
    items.fold(schema, OneOfBuilder::item).into()
}

/// Implements what the ends of relays have in common, for an enum with one structure a kind.
macro_rules! relay_end {
    ($end:ident, $description:literal, $($kind:literal $variant:ident $config:ident,)*) => {
        impl $end {
            /// The kind, as in the field `kind`.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            /// The URL of the server; empty if the kind has none, or it is not set.
            #[must_use]
            pub fn url(&self) -> &str {
                match self {
                    $(Self::$variant(config) => config.url(),)*
                }
            }

            /// Checks the fields, except for secrets that are missing.
            pub(super) fn check(&self) -> Result<(), $crate::v1::problem::InvalidRequest> {
                match self {
                    $(Self::$variant(config) => config.check(),)*
                }
            }

            /// Checks that no secret is missing, and their form.
            pub(super) fn check_secrets(&self) -> Result<(), $crate::v1::problem::InvalidRequest> {
                match self {
                    $(Self::$variant(config) => config.check_secrets(),)*
                }
            }

            /// The fields with secrets, by name.
            pub(super) fn secrets_mut(&mut self) -> Vec<(&'static str, &mut super::secret::SecretText)> {
                match self {
                    $(Self::$variant(config) => config.secrets_mut(),)*
                }
            }

            /// The fields that take the place of a user in the URL.
            pub(super) const fn credential_fields(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $config::CREDENTIAL_FIELDS,)*
                }
            }
        }

        impl utoipa::PartialSchema for $end {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let kinds = [$(($kind, <$config as utoipa::ToSchema>::name().into_owned()),)*];
                super::kinds::one_of_kinds($description, &kinds)
            }
        }

        impl utoipa::ToSchema for $end {
            fn schemas(
                schemas: &mut Vec<(
                    String,
                    utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
                )>,
            ) {
                $(
                    let schema = <$config as utoipa::PartialSchema>::schema();
                    schemas.push((
                        <$config as utoipa::ToSchema>::name().into_owned(),
                        super::kinds::with_kind($kind, schema),
                    ));
                    <$config as utoipa::ToSchema>::schemas(schemas);
                )*
            }
        }
    };
}

pub(super) use relay_end;
