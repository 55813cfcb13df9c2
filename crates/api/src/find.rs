//! Finding things by the name a person gives: by a unique beginning of an id, or by a name that was mistyped.

use std::fmt;
use std::str::FromStr;

use vestal_sandbox::{InvalidJobId, JobId, JobInfo};

/// A job's id, or a beginning of it that only one job has, with or without `j-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPrefix(String);

impl JobPrefix {
    /// Returns the text that was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id that this is if it is given in full.
    pub fn as_id(&self) -> Option<JobId> {
        self.0.parse().ok()
    }

    /// Reports whether an id begins like this.
    pub fn matches(&self, id: &JobId) -> bool {
        id.as_str().starts_with(&self.0)
            || id.as_str().trim_start_matches("j-").starts_with(&self.0)
    }

    /// Returns the only job that matches among those found. `stopped` names the sandboxes that were not searched.
    pub fn only<T>(
        &self,
        mut found: Vec<T>,
        info: impl Fn(&T) -> &JobInfo,
        stopped: Vec<String>,
    ) -> Result<T, JobNotFound> {
        let wanted = self.0.clone();
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(JobNotFound::Unknown { wanted, stopped }),
            (Some(last), false) => {
                let count = found.len() + 1;
                // The newest are the likeliest to be meant.
                let jobs = std::iter::once(&last).chain(found.iter().rev()).take(NAMED);
                let jobs = jobs.map(|job| (info(job).id.clone(), info(job).summary.clone()));
                Err(JobNotFound::Ambiguous { wanted, count, jobs: jobs.collect() })
            }
        }
    }
}

/// Jobs named where several begin alike. Ids begin with the time, so that jobs of the same minutes do.
const NAMED: usize = 10;

impl FromStr for JobPrefix {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<JobId>()?;
        Ok(Self(text.to_owned()))
    }
}

/// Why a prefix names no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobNotFound {
    /// No sandbox that was searched has a job like this.
    Unknown {
        /// The prefix.
        wanted: String,
        /// Stopped sandboxes, which were not searched.
        stopped: Vec<String>,
    },
    /// Several jobs begin like this.
    Ambiguous {
        /// The prefix.
        wanted: String,
        /// How many there are.
        count: usize,
        /// The newest of them, each with the beginning of its command.
        jobs: Vec<(JobId, String)>,
    },
}

impl fmt::Display for JobNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { wanted, .. } => {
                write!(f, "no job {wanted} in the sandboxes that were searched")
            }
            Self::Ambiguous { wanted, count, .. } => write!(f, "{count} jobs begin with {wanted}"),
        }
    }
}

impl std::error::Error for JobNotFound {}

/// Returns the candidate that a mistyped name most likely means.
pub fn closest_name<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let tolerance =
        |candidate: &str| (name.chars().count().min(candidate.chars().count()) / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use vestal_sandbox::{JobState, SessionState};

    use super::*;

    fn id(text: &str) -> JobId {
        text.parse().unwrap()
    }

    #[test]
    fn jobs_are_named_by_a_beginning_with_or_without_the_prefix() {
        for given in ["j-01abc", "j-0", "01a"] {
            assert!(given.parse::<JobPrefix>().unwrap().matches(&id("j-01abc")), "{given}");
        }
        assert!(!"1ab".parse::<JobPrefix>().unwrap().matches(&id("j-01abc")));
        assert!("J/../x".parse::<JobPrefix>().is_err());
    }

    fn job(text: &str) -> JobInfo {
        JobInfo {
            id: id(text),
            state: JobState::Running,
            summary: format!("make {text}"),
            session: None,
            cwd: Vec::<u8>::new().into(),
            background: false,
            pty: false,
            pid: None,
            pid_start: None,
            started_ms: 0,
            ended_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_omitted: 0,
            stderr_omitted: 0,
            processes: 1,
            stdin_open: false,
            session_state: SessionState::None,
            duration_us: None,
            session_error: None,
        }
    }

    #[test]
    fn a_beginning_that_several_jobs_have_names_none_of_them_and_lists_them_with_their_commands() {
        let prefix: JobPrefix = "01".parse().unwrap();
        let only = |ids: &[&str]| {
            let found = ids.iter().map(|text| job(text)).collect();
            prefix.only(found, |job| job, vec!["web".to_owned()]).map(|job| job.id)
        };
        let wanted = "01".to_owned();
        assert_eq!(only(&["j-01a"]), Ok(id("j-01a")));
        let stopped = vec!["web".to_owned()];
        assert_eq!(only(&[]), Err(JobNotFound::Unknown { wanted: wanted.clone(), stopped }));
        let jobs = ["j-01b", "j-01a"].map(|text| (id(text), format!("make {text}"))).to_vec();
        let ambiguous = JobNotFound::Ambiguous { wanted, count: 2, jobs };
        assert_eq!(only(&["j-01a", "j-01b"]), Err(ambiguous));
    }

    #[test]
    fn a_slip_is_recognised_and_a_different_name_is_not() {
        assert_eq!(closest_name("wbe", ["api", "web"]), Some("web"));
        assert_eq!(closest_name("defualt", ["default"]), Some("default"));
        assert_eq!(closest_name("web", ["database", "x"]), None);
        assert_eq!(closest_name("web", []), None);
    }
}
