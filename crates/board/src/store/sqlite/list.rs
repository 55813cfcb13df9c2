//! Lists and counts of tasks, and tasks that may need attention.

use std::ops::ControlFlow;

use async_trait::async_trait;

use super::row::{ColumnValue, Columns, StatementBatch};
use super::tasks::{self, ARCHIVED, CALM, folded, shelf};
use super::transaction::Transaction;
use crate::Result;
use crate::id::TaskId;
use crate::store::{Order, ReadLists, TaskQuery, Visitor};
use crate::task::{FailureCount, Status, Task};
use crate::time::Time;

/// Returns by what tasks are ordered.
const fn order(order: Order) -> &'static str {
    match order {
        Order::Board => "shelf, rank, seq",
        Order::Created => "seq",
        Order::CreatedDesc => "seq DESC",
        Order::Priority => "priority, seq",
        Order::PriorityDesc => "priority DESC, seq",
        Order::Status => "status, rank, seq",
        Order::Assignee => "assignee, shelf, rank, seq",
        Order::Title => "title, seq",
        Order::Updated => "updated_at DESC, seq DESC",
    }
}

/// Adds which tasks are asked for. Where a task stands is asked by its shelf,
/// so that an index gives them in order.
fn filter(script: &mut StatementBatch, query: &TaskQuery) {
    if query.statuses.is_empty() {
        let end = match (query.needs_attention, query.with_archived) {
            (true, _) => CALM,
            (false, false) => ARCHIVED,
            (false, true) => ARCHIVED + 1,
        };
        script.push(" WHERE shelf < ").value(end);
    } else {
        let attentions = if query.needs_attention { &[true][..] } else { &[true, false] };
        let on = |status| attentions.iter().map(move |attention| shelf(status, *attention));
        let mut shelves: Vec<i64> = query.statuses.iter().copied().flat_map(on).collect();
        shelves.sort_unstable();
        shelves.dedup();
        let shelves: Vec<ColumnValue<'_>> = shelves.into_iter().map(ColumnValue::from).collect();
        script.push(" WHERE shelf IN ").tuple(&shelves);
    }
    if query.needs_attention {
        script.push(" AND attention IS NOT NULL");
    }
    match &query.assignee {
        Some(Some(name)) => {
            script.push(" AND assignee = ").value(folded(name));
        }
        Some(None) => {
            script.push(" AND assignee IS NULL");
        }
        None => {}
    }
    if let Some(tenant) = &query.tenant {
        script.push(" AND tenant = ").value(tenant.as_str());
        if !tenant.is_empty() {
            script.push(" AND tenant <> ''");
        }
    }
    if let Some(session) = &query.session {
        script.push(" AND session_id = ").value(session.as_str());
    }
    if let Some(text) = &query.text {
        search(script, text);
    }
}

/// Adds which tasks have a text in title or body. Databases agree on small and
/// capital letters only within ASCII: of other texts, the longest part that is
/// ASCII is asked for, and [`contains_text`] decides.
fn search(script: &mut StatementBatch, text: &str) {
    let parts = text.split(|letter: char| !letter.is_ascii());
    let part = parts.max_by_key(|part| part.len()).unwrap_or_default().to_ascii_lowercase();
    let mut pattern = String::from("%");
    for letter in part.chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    let pattern = ColumnValue::from(pattern);
    script.push(" AND (lower(title) LIKE ").bind(&pattern).push(" ESCAPE '!'");
    script.push(" OR lower(body) LIKE ").bind(&pattern).push(" ESCAPE '!')");
}

/// Reports whether a text is in the title or the body, whatever its case.
fn contains_text(task: &Task, text: &str) -> bool {
    let text = text.to_lowercase();
    [&task.title, &task.body].iter().any(|field| field.to_lowercase().contains(&text))
}

/// Returns the statement that gives the tasks of a page in order.
fn selection(query: &TaskQuery) -> StatementBatch {
    let order = order(query.order);
    let mut script = StatementBatch::of(concat!("SELECT ", tasks::columns!(), " FROM tasks"));
    if query.limit.is_none() && query.offset == 0 {
        // Read in the order of an index where there is one, all begin to come at once.
        filter(&mut script, query);
        script.push(" ORDER BY ").push(order);
        return script;
    }
    // Where all have to be looked at, only the page is read as a whole.
    script.push(" WHERE seq IN (SELECT seq FROM tasks");
    filter(&mut script, query);
    script.push(" ORDER BY ").push(order);
    script.push(" LIMIT ").value(query.limit.map_or(i64::MAX, i64::from));
    script.push(" OFFSET ").value(query.offset);
    script.push(") ORDER BY ").push(order);
    script
}

impl Transaction {
    async fn page(&mut self, query: &TaskQuery) -> Result<Vec<Task>> {
        self.ask(selection(query)).await?.iter().map(tasks::read).collect()
    }
}

/// How far back events are looked at: far enough for a busy day, and not for ever.
const LATEST_EVENTS: i64 = 50_000;

#[async_trait]
impl ReadLists for Transaction {
    async fn list(&mut self, query: &TaskQuery) -> Result<Vec<Task>> {
        match &query.text {
            Some(text) if !text.is_ascii() => {
                let all = TaskQuery { limit: None, offset: 0, ..query.clone() };
                let tasks =
                    self.page(&all).await?.into_iter().filter(|task| contains_text(task, text));
                let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
                Ok(tasks.skip(query.offset as usize).take(limit).collect())
            }
            _ => self.page(query).await,
        }
    }

    async fn visit(&mut self, query: &TaskQuery, each: &mut Visitor<'_>) -> Result<()> {
        // What the database cannot tell apart is distinguished here, so that here is counted, too.
        let exact = query.text.as_deref().filter(|text| !text.is_ascii());
        let (mut skip, mut left) = match exact {
            Some(_) => (query.offset, query.limit.unwrap_or(u32::MAX)),
            None => (0, u32::MAX),
        };
        let whole = TaskQuery { limit: None, offset: 0, ..query.clone() };
        let script = selection(if exact.is_some() { &whole } else { query });
        self.one_by_one(script, &mut |row| {
            let task = tasks::read(row)?;
            if exact.is_some_and(|text| !contains_text(&task, text)) {
                return Ok(ControlFlow::Continue(()));
            }
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= u32::from(exact.is_some());
            Ok(each(task))
        })
        .await
    }

    async fn finished_after(
        &mut self,
        since: Time,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<(Time, i64, TaskId)>> {
        let shelves = [shelf(Status::Done, true), shelf(Status::Done, false), ARCHIVED];
        let shelves = shelves.map(ColumnValue::from);
        let mut script =
            StatementBatch::of("SELECT updated_at, seq, id FROM tasks WHERE shelf IN ");
        script.tuple(&shelves).push(" AND updated_at >= ").value(since);
        script.push(" AND (updated_at > ").value(since).push(" OR seq > ").value(seq);
        script.push(") ORDER BY updated_at, seq LIMIT ").value(i64::from(limit));
        let read = |row| {
            let mut columns = Columns::of(row, "a finished task");
            Ok((columns.time()?, columns.int()?, columns.word()?))
        };
        self.ask(script).await?.iter().map(read).collect()
    }

    async fn count(&mut self, query: &TaskQuery) -> Result<u64> {
        if query.text.as_ref().is_some_and(|text| !text.is_ascii()) {
            let all = TaskQuery { limit: None, offset: 0, ..query.clone() };
            return Ok(self.list(&all).await?.len() as u64);
        }
        let mut script = StatementBatch::of("SELECT count(*) FROM tasks");
        filter(&mut script, query);
        let rows = self.ask(script).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row, "a count").count())
    }

    async fn failing(&mut self, at_least: u32, limit: u32) -> Result<Vec<(TaskId, FailureCount)>> {
        let text = "SELECT task_id, cause, count, error, at FROM failures WHERE count >= $1 \
                    ORDER BY count DESC, task_id, cause LIMIT $2";
        let statement = sqlx::query(text).bind(i64::from(at_least)).bind(i64::from(limit));
        self.each(statement, |row| {
            let mut columns = Columns::of(row, "a failure");
            let task = columns.word()?;
            let failure = FailureCount {
                cause: columns.word()?,
                count: columns.count()?,
                error: columns.text()?,
                at: columns.time()?,
            };
            Ok((task, failure))
        })
        .await
    }

    async fn blocked_before(&mut self, moment: Time, limit: u32) -> Result<Vec<Task>> {
        let text = concat!(
            "SELECT ",
            tasks::columns!(),
            " FROM tasks WHERE shelf IN ($1, $2) AND updated_at <= $3 \
             ORDER BY updated_at, seq LIMIT $4"
        );
        let statement = sqlx::query(text)
            .bind(shelf(Status::Blocked, true))
            .bind(shelf(Status::Blocked, false))
            .bind(moment.millis())
            .bind(i64::from(limit));
        self.each(statement, tasks::read).await
    }

    async fn blocked_repeatedly(
        &mut self,
        since: Time,
        at_least: u32,
        limit: u32,
    ) -> Result<Vec<(TaskId, u32)>> {
        let text = "SELECT task_id, count(*) FROM \
                    (SELECT task_id, kind, created_at FROM events ORDER BY id DESC LIMIT $1) \
                    AS latest WHERE kind IN ('blocked', 'block_loop_detected') \
                    AND created_at >= $2 \
                    GROUP BY task_id HAVING count(*) >= $3 ORDER BY 2 DESC, 1 LIMIT $4";
        let statement = sqlx::query(text)
            .bind(LATEST_EVENTS)
            .bind(since.millis())
            .bind(i64::from(at_least))
            .bind(i64::from(limit));
        self.each(statement, |row| {
            let mut columns = Columns::of(row, "a count");
            Ok((columns.word()?, columns.count()?))
        })
        .await
    }
}
