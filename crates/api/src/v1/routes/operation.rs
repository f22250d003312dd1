//! A row in the tables of operations: a method of a path, the scope that it needs, its handler, all that a client may
//! send, and get from it.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::path::Parameter;

use super::handler::{Handler, NeededScope};
use super::headers::AnswerHeader;

/// A method of a path. The common parts of all operations, such as the answers to a request without a valid API key, is
/// added in [`crate::v1::openapi`].
pub(in crate::v1) struct OperationRow {
    pub(in crate::v1) method: HttpMethod,
    pub(in crate::v1) path: &'static str,
    /// Unique in the document.
    pub(in crate::v1) id: &'static str,
    pub(in crate::v1) summary: &'static str,
    pub(in crate::v1) description: &'static str,
    pub(in crate::v1) needs: NeededScope,
    pub(in crate::v1) handler: Handler,
    /// Parameters of the query and headers. Parameters of the path follow from `path`.
    pub(in crate::v1) parameters: fn() -> Vec<Parameter>,
    pub(in crate::v1) body: BodyShape,
    pub(in crate::v1) answers: &'static [AnswerShape],
    /// The problems besides the problems of all operations and of all bodies of this shape.
    pub(in crate::v1) problems: &'static [ProblemCode],
}

/// The body of a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::v1) enum BodyShape {
    /// None; a body of a request is ignored.
    Nothing,
    /// JSON with this schema.
    Json(&'static str),
    /// The payload of a job.
    Payload,
}

/// An answer to a request that succeeds.
pub(in crate::v1) struct AnswerShape {
    pub(in crate::v1) status: u16,
    pub(in crate::v1) description: &'static str,
    pub(in crate::v1) body: BodyShape,
    pub(in crate::v1) headers: &'static [AnswerHeader],
}

fn no_parameters() -> Vec<Parameter> {
    Vec::new()
}

/// An operation without parameters, body and answers, to which these are added.
pub(in crate::v1) const fn operation(
    method: HttpMethod,
    path: &'static str,
    id: &'static str,
    scope: Scope,
    handler: Handler,
) -> OperationRow {
    OperationRow {
        method,
        path,
        id,
        summary: "",
        description: "",
        needs: NeededScope {
            scope,
            by_key: None,
        },
        handler,
        parameters: no_parameters,
        body: BodyShape::Nothing,
        answers: &[],
        problems: &[],
    }
}

impl OperationRow {
    /// The method as in a request.
    pub(in crate::v1) const fn method_name(&self) -> &'static str {
        match self.method {
            HttpMethod::Get => "GET",
            HttpMethod::Post => "POST",
            HttpMethod::Put => "PUT",
            HttpMethod::Patch => "PATCH",
            HttpMethod::Delete => "DELETE",
            _ => panic!("no operation has this method"),
        }
    }

    pub(in crate::v1) const fn about(
        mut self,
        summary: &'static str,
        description: &'static str,
    ) -> Self {
        self.summary = summary;
        self.description = description;
        self
    }

    pub(in crate::v1) const fn or_by_key(mut self, scope: Scope) -> Self {
        self.needs.by_key = Some(scope);
        self
    }

    pub(in crate::v1) const fn parameters(mut self, parameters: fn() -> Vec<Parameter>) -> Self {
        self.parameters = parameters;
        self
    }

    pub(in crate::v1) const fn body(mut self, body: BodyShape) -> Self {
        self.body = body;
        self
    }

    pub(in crate::v1) const fn answers(mut self, answers: &'static [AnswerShape]) -> Self {
        self.answers = answers;
        self
    }

    pub(in crate::v1) const fn problems(mut self, problems: &'static [ProblemCode]) -> Self {
        self.problems = problems;
        self
    }
}

/// An answer with a body of JSON.
pub(in crate::v1) const fn json(
    status: u16,
    schema: &'static str,
    description: &'static str,
) -> AnswerShape {
    AnswerShape {
        status,
        description,
        body: BodyShape::Json(schema),
        headers: &[],
    }
}

impl AnswerShape {
    pub(in crate::v1) const fn body(mut self, body: BodyShape) -> Self {
        self.body = body;
        self
    }

    pub(in crate::v1) const fn headers(mut self, headers: &'static [AnswerHeader]) -> Self {
        self.headers = headers;
        self
    }
}
