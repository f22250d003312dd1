//! API keys.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{ConfigurableLimits, DESCRIPTION_BYTES_MAX};
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{CursorText, PoolText, Timestamp};
use crate::{NamespaceGrant, Scope};

/// The secret of an API key, complete as in `Authorization: Bearer …`. It is not shown by [`fmt::Debug`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct KeySecret(pub String);

impl fmt::Debug for KeySecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeySecret(…)")
    }
}

/// The API key to create. It cannot allow more than the key of the request; an operator may create any.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateKeyBody {
    /// The scopes that it allows, each once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 4))]
    pub scopes: Vec<Scope>,
    /// Its purpose, for people: 1 to 255 bytes.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub description: String,
    /// Its namespaces. By default the namespace of the path; `*` in the path stands for all.
    pub namespace: Option<NamespaceGrant>,
    /// Its pool. By default the pool of the key of the request.
    pub pool: Option<PoolText>,
    /// When it expires. By default never.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub expires_at: Option<Timestamp>,
    /// A secret that an operator has chosen, on the admin port, so that a deployment that is set up again has the keys of its
    /// clients: `tg_`, 12 characters of `0-9A-Z`, `_`, 26 characters of `0-9A-Z`. By default a random one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^tg_[0-9A-Z]{12}_[0-9A-Z]{26}$"))]
    pub secret: Option<KeySecret>,
}

impl CheckedRequest for CreateKeyBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        if self.scopes.is_empty() {
            let detail = "an API key needs at least one scope: publish, consume, read or admin";
            return Err(InvalidRequest::of_field("scopes", detail));
        }
        for (index, scope) in self.scopes.iter().enumerate() {
            if self.scopes[..index].contains(scope) {
                let detail = "the scope is there twice; name it once";
                return Err(InvalidRequest::of_field(format!("scopes[{index}]"), detail));
            }
        }
        let text = &self.description;
        if !(1..=DESCRIPTION_BYTES_MAX).contains(&text.len()) || text.chars().any(char::is_control)
        {
            let detail = format!(
                "the description must be 1 to {DESCRIPTION_BYTES_MAX} bytes without control characters"
            );
            return Err(InvalidRequest::of_field("description", detail));
        }
        Ok(())
    }
}

/// The result of a call about an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeyOutcome {
    /// There is a new API key.
    Created,
    /// The API key is deleted. Servers reject it within a second.
    Revoked,
}

/// A new API key. This is the only answer with its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedKey {
    /// The result of the call: `created`.
    pub outcome: KeyOutcome,
    /// The secret, complete as in `Authorization: Bearer tg_…`. The server stores only its hash.
    pub secret: KeySecret,
    /// The key as lists show it.
    pub key: KeyView,
}

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyView {
    /// Its id, which is a part of the secret.
    pub id: String,
    /// Its namespaces.
    pub namespace: NamespaceGrant,
    /// Its pool.
    pub pool: PoolText,
    /// The scopes that it allows.
    pub scopes: Vec<Scope>,
    /// Its purpose.
    pub description: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A stored API key that cannot be read. It opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DamagedKey {
    /// Its id, by which it can be deleted.
    pub id: String,
    /// Why it cannot be read.
    pub problem: String,
}

/// A page of a list of API keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyPage {
    /// The keys.
    pub items: Vec<KeyView>,
    /// Entries that cannot be read, which only operators see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedKey>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}

/// An API key that was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevokedKey {
    /// The result of the call: `revoked`.
    pub outcome: KeyOutcome,
    /// Its id.
    pub id: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1::input::read_body;

    fn read(body: &Value) -> Result<CreateKeyBody, InvalidRequest> {
        read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
    }

    #[test]
    fn keys_have_scopes_and_a_description() {
        let least = read(&json!({"scopes": ["publish"], "description": "shop"})).unwrap();
        assert_eq!(
            (least.namespace, least.pool, least.expires_at),
            (None, None, None)
        );
        let json = json!({
            "scopes": ["publish", "consume", "read", "admin"], "description": "shop", "namespace": "*",
            "pool": "default", "expires_at": "2027-01-01T00:00:00.000Z",
        });
        let all = read(&json).unwrap();
        assert_eq!(all.namespace, Some(NamespaceGrant::All));
        assert_eq!(serde_json::to_value(&all).unwrap(), json);
    }

    #[test]
    fn other_keys_are_rejected() {
        for (body, expected) in [
            (
                json!({"description": "x"}),
                "invalid_body: missing field `scopes`",
            ),
            (
                json!({"scopes": ["read"]}),
                "invalid_body: missing field `description`",
            ),
            (
                json!({"scopes": [], "description": "x"}),
                "invalid_parameter: scopes: ",
            ),
            (
                json!({"scopes": ["read", "admin", "read"], "description": "x"}),
                "invalid_parameter: scopes[2]: ",
            ),
            (
                json!({"scopes": ["write"], "description": "x"}),
                "invalid_body: scopes[0]: unknown variant",
            ),
            (
                json!({"scopes": ["read"], "description": ""}),
                "invalid_parameter: description: ",
            ),
            (
                json!({"scopes": ["read"], "description": "a\nb"}),
                "invalid_parameter: description: ",
            ),
            (
                json!({"scopes": ["read"], "description": "x".repeat(256)}),
                "invalid_parameter: description: ",
            ),
            (
                json!({"scopes": ["read"], "description": "x", "namespace": "a*"}),
                "invalid_name: namespace: ",
            ),
            (
                json!({"scopes": ["read"], "description": "x", "expires_at": "soon"}),
                "invalid_parameter: expires_at: ",
            ),
            (
                json!({"scopes": ["read"], "description": "x", "secrets": "s"}),
                "invalid_body: secrets: unknown field",
            ),
        ] {
            let error = read(&body).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{body}: {error}");
        }
    }

    #[test]
    fn a_key_creates_keys_only_within_its_namespaces() {
        let names = |text: &str| NamespaceGrant::try_from(text).unwrap();
        assert!(names("*").includes(&names("*")) && names("*").includes(&names("shop")));
        assert!(names("shop").includes(&names("shop")));
        assert!(!names("shop").includes(&names("*")) && !names("shop").includes(&names("other")));
    }

    #[test]
    fn only_the_answer_to_create_has_the_secret() {
        let key = json!({
            "id": "K7", "namespace": "shop", "pool": "default", "scopes": ["read"], "description": "x",
            "created_at": "2026-11-21T12:30:00.000Z",
        });
        let json = json!({"outcome": "created", "secret": "tg_K7_abc", "key": key});
        let created: CreatedKey = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&created).unwrap(), json);
        assert!(!format!("{created:?}").contains("abc"));
        let listed = serde_json::to_string(&created.key).unwrap();
        assert!(!listed.contains("abc") && !listed.contains("secret"));
        let page: KeyPage = serde_json::from_value(json!({"items": [key], "next": null})).unwrap();
        assert_eq!(page.items, [created.key]);
        let revoked = json!({"outcome": "revoked", "id": "K7"});
        let read: RevokedKey = serde_json::from_value(revoked.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), revoked);
    }
}
