//! The style sheet and the script of the pages.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_64;

const STYLE: &str = include_str!("dashboard.css");
const SCRIPT: &str = include_str!("dashboard.js");
const ICON: &str = include_str!("icon.svg");

/// The version in the paths of the files: of one build, browsers load each once.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all = [STYLE, SCRIPT, ICON].concat();
    format!("{:016x}", xxh3_64(all.as_bytes()))
});

/// The path of a file.
pub(super) fn path(name: &str) -> String {
    format!("/ui/assets/{}/{name}", &*VERSION)
}

/// `GET /ui/assets/VERSION/NAME`
pub(super) async fn show(Path((_, name)): Path<(String, String)>) -> Response {
    let (kind, text) = match name.as_str() {
        "dashboard.css" => ("text/css; charset=utf-8", STYLE),
        "dashboard.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (
            header::CACHE_CONTROL,
            "private, max-age=31536000, immutable",
        ),
    ];
    (headers, text).into_response()
}
