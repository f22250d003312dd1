//! The errors that are shown instead of a page.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use tidegate_engine::EngineError;
use tidegate_store::StoreError;

use super::layout;

/// Why a page cannot be shown, or an action was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    /// The address names no pool, queue or job.
    #[error("{0}")]
    NotFound(&'static str),
    /// A field of a form or of the address is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The form was not sent from a page of this dashboard, or its cookie is lost.
    #[error(
        "The form was not sent from a page that this dashboard has shown to you: go back, load the page again, and repeat it. Cookies must be allowed."
    )]
    Forged,
    /// The account has a lower role.
    #[error(
        "Your account may not do this: it needs the role “{0}”, see [account_roles] in the settings."
    )]
    Forbidden(&'static str),
    /// A call of the engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

impl PageError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Forged | Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Engine(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The text for a person.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Engine(EngineError::StorageFailed | EngineError::StorageRefused) => {
                "Redis gave no answer, or refused the call. The log of this process has the reason."
                    .to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let title = match self {
            Self::NotFound(_) => "Not found",
            Self::Invalid(_) => "Not valid",
            Self::Forged | Self::Forbidden(_) => "Not allowed",
            Self::Engine(_) => "Not available",
        };
        let message = html! { p.problem role="alert" { (self.message()) } };
        (self.status(), layout::bare(title, &message)).into_response()
    }
}
