//! Acknowledgements of consumed jobs.

use super::native;
use super::protocol::Wire;
use super::request::RequestBuilder;
use crate::error::LoadgenError;
use crate::http::HttpConnection;

/// Prepared requests that acknowledge the jobs of consume answers. Lmstfy takes one request a job, and the requests for
/// one answer are pipelined; the native wire takes one request an answer.
#[derive(Debug)]
pub(crate) struct AckRequests {
    requests: RequestBuilder,
    queue: String,
    bytes: Vec<u8>,
    batches: Vec<AckBatch>,
    /// Leases of the answer that is being read.
    leases: Vec<String>,
    /// Jobs of that answer.
    jobs: usize,
}

/// The requests for the jobs of one answer.
#[derive(Debug)]
struct AckBatch {
    /// Where they end in the bytes.
    end: usize,
    jobs: usize,
}

impl AckRequests {
    pub(crate) fn new(requests: RequestBuilder, queue: &str) -> Self {
        Self {
            requests,
            queue: queue.to_owned(),
            bytes: Vec::new(),
            batches: Vec::new(),
            leases: Vec::new(),
            jobs: 0,
        }
    }

    /// Adds a job of the answer that is being read: by its id, or by its lease.
    pub(crate) fn add(&mut self, handle: &str) {
        self.jobs += 1;
        match self.requests.wire {
            Wire::Lmstfy => {
                let rest = format_args!("{}/job/{handle}", self.queue);
                self.requests
                    .write_without_body(&mut self.bytes, "DELETE", rest);
            }
            Wire::Native => self.leases.push(handle.to_owned()),
        }
    }

    /// Ends an answer. Returns how many jobs it had.
    pub(crate) fn end_answer(&mut self) -> usize {
        let jobs = std::mem::take(&mut self.jobs);
        if jobs == 0 {
            return 0;
        }
        if self.requests.wire == Wire::Native {
            let request = native::settle(&self.requests, "ack", &self.leases, "");
            self.bytes.extend_from_slice(&request);
            self.leases.clear();
        }
        self.batches.push(AckBatch {
            end: self.bytes.len(),
            jobs,
        });
        jobs
    }

    /// Returns the bytes of all requests, instead of sending them.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Sends all requests, one answer after the other. Returns the number of jobs.
    pub(crate) async fn send(
        &mut self,
        connection: &mut HttpConnection,
    ) -> Result<usize, LoadgenError> {
        let (mut begin, mut all) = (0, 0);
        for AckBatch { end, jobs } in self.batches.drain(..) {
            connection.send(&self.bytes[begin..end]).await?;
            match self.requests.wire {
                Wire::Lmstfy => receive_each(connection, jobs).await?,
                Wire::Native => receive_together(connection, jobs).await?,
            }
            begin = end;
            all += jobs;
        }
        self.bytes.clear();
        Ok(all)
    }
}

async fn receive_each(connection: &mut HttpConnection, jobs: usize) -> Result<(), LoadgenError> {
    for _ in 0..jobs {
        let answer = connection.answer().await?;
        if answer.status != 204 {
            return Err(LoadgenError::unexpected("ack", answer.status, answer.body));
        }
    }
    Ok(())
}

async fn receive_together(
    connection: &mut HttpConnection,
    jobs: usize,
) -> Result<(), LoadgenError> {
    let answer = connection.answer().await?;
    let outcomes = native::outcomes("ack", answer.status, answer.body)?;
    let done = outcomes.iter().filter(|it| it.outcome == native::DONE);
    if done.count() != jobs {
        return Err(LoadgenError::unexpected("ack", answer.status, answer.body));
    }
    Ok(())
}
