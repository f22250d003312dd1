//! The shape of a row in the tables of operations: all that a client may send to a method of a path, and get from it.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::path::Parameter;

use super::headers::AnswerHeader;

/// A method of a path. What all operations have in common, such as the answers to a request without a valid API key, is
/// added in [`super::responses`].
pub(super) struct OperationRow {
    pub(super) method: HttpMethod,
    /// As in the table of routes.
    pub(super) path: &'static str,
    /// Unique in the document.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// The scope that the API key needs.
    pub(super) scope: Scope,
    /// Parameters of the query and headers. Those of the path follow from `path`.
    pub(super) parameters: fn() -> Vec<Parameter>,
    pub(super) body: RequestShape,
    pub(super) answers: &'static [AnswerShape],
    /// The problems besides those of all operations and of all bodies of this shape.
    pub(super) problems: &'static [ProblemCode],
}

/// The body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestShape {
    /// None; a body that is sent is ignored.
    Nothing,
    /// JSON with this schema.
    Json(&'static str),
    /// The payload of a job.
    Payload,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerBody {
    Nothing,
    /// JSON with this schema.
    Json(&'static str),
    /// The payload of a job.
    Payload,
    /// JSON with this schema, or the payload of a job, as the request says.
    JsonOrPayload(&'static str),
}

/// An answer to a request that succeeds.
pub(super) struct AnswerShape {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) body: AnswerBody,
    pub(super) headers: &'static [AnswerHeader],
    pub(super) links: &'static [LinkShape],
}

/// What a client can do with an answer.
pub(super) struct LinkShape {
    /// The operation. It gets the namespace and the queue of the request.
    pub(super) operation: &'static str,
    pub(super) takes: LinkTarget,
}

/// Where an operation takes a value of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum LinkTarget {
    /// A parameter of the path, and an expression for its value.
    Path(&'static str, &'static str),
    /// `leases` of the body, and an expression for one of them.
    Leases(&'static str),
    /// The same with an error for each lease.
    FailedLeases(&'static str),
}

fn no_parameters() -> Vec<Parameter> {
    Vec::new()
}

/// An operation without parameters, body and answers, to which these are added.
pub(super) const fn operation(
    method: HttpMethod,
    path: &'static str,
    id: &'static str,
    scope: Scope,
) -> OperationRow {
    OperationRow {
        method,
        path,
        id,
        summary: "",
        description: "",
        scope,
        parameters: no_parameters,
        body: RequestShape::Nothing,
        answers: &[],
        problems: &[],
    }
}

impl OperationRow {
    pub(super) const fn about(mut self, summary: &'static str, description: &'static str) -> Self {
        self.summary = summary;
        self.description = description;
        self
    }

    pub(super) const fn parameters(mut self, parameters: fn() -> Vec<Parameter>) -> Self {
        self.parameters = parameters;
        self
    }

    pub(super) const fn body(mut self, body: RequestShape) -> Self {
        self.body = body;
        self
    }

    pub(super) const fn answers(mut self, answers: &'static [AnswerShape]) -> Self {
        self.answers = answers;
        self
    }

    pub(super) const fn problems(mut self, problems: &'static [ProblemCode]) -> Self {
        self.problems = problems;
        self
    }
}

/// An answer with a body of JSON.
pub(super) const fn json(
    status: u16,
    schema: &'static str,
    description: &'static str,
) -> AnswerShape {
    AnswerShape {
        status,
        description,
        body: AnswerBody::Json(schema),
        headers: &[],
        links: &[],
    }
}

impl AnswerShape {
    pub(super) const fn body(mut self, body: AnswerBody) -> Self {
        self.body = body;
        self
    }

    pub(super) const fn headers(mut self, headers: &'static [AnswerHeader]) -> Self {
        self.headers = headers;
        self
    }

    pub(super) const fn links(mut self, links: &'static [LinkShape]) -> Self {
        self.links = links;
        self
    }
}
