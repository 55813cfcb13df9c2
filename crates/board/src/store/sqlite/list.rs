//! Many tasks at once.

use super::row::{Columns, Value};
use super::script::Script;
use super::task_row::{self, ARCHIVED, CALM, folded, shelf};
use super::transaction::Transaction;
use crate::Result;
use crate::store::{Order, Query};
use crate::task::Task;

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
fn filter(script: &mut Script, query: &Query) {
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
        let shelves: Vec<Value<'_>> = shelves.into_iter().map(Value::from).collect();
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
/// ASCII is asked for, and [`says`] decides.
fn search(script: &mut Script, text: &str) {
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
    let pattern = Value::from(pattern);
    script.push(" AND (lower(title) LIKE ").bind(&pattern).push(" ESCAPE '!'");
    script.push(" OR lower(body) LIKE ").bind(&pattern).push(" ESCAPE '!')");
}

/// Reports whether a text is in the title or the body, whatever its case.
fn says(task: &Task, text: &str) -> bool {
    let text = text.to_lowercase();
    [&task.title, &task.body].iter().any(|said| said.to_lowercase().contains(&text))
}

impl Transaction {
    pub(super) async fn list_tasks(&mut self, query: &Query) -> Result<Vec<Task>> {
        match &query.text {
            Some(text) if !text.is_ascii() => {
                let all = Query { limit: None, offset: 0, ..query.clone() };
                let tasks = self.page(&all).await?.into_iter().filter(|task| says(task, text));
                let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
                Ok(tasks.skip(query.offset as usize).take(limit).collect())
            }
            _ => self.page(query).await,
        }
    }

    async fn page(&mut self, query: &Query) -> Result<Vec<Task>> {
        let order = order(query.order);
        let mut script = Script::of(concat!("SELECT ", task_row::columns!(), " FROM tasks"));
        // Where all have to be looked at, only the page is read as a whole.
        script.push(" WHERE seq IN (SELECT seq FROM tasks");
        filter(&mut script, query);
        script.push(" ORDER BY ").push(order);
        script.push(" LIMIT ").value(query.limit.map_or(i64::MAX, i64::from));
        script.push(" OFFSET ").value(query.offset);
        script.push(") ORDER BY ").push(order);
        self.ask(script).await?.iter().map(task_row::read).collect()
    }

    pub(super) async fn count_tasks(&mut self, query: &Query) -> Result<u64> {
        if query.text.as_ref().is_some_and(|text| !text.is_ascii()) {
            let all = Query { limit: None, offset: 0, ..query.clone() };
            return Ok(self.list_tasks(&all).await?.len() as u64);
        }
        let mut script = Script::of("SELECT count(*) FROM tasks");
        filter(&mut script, query);
        let rows = self.ask(script).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row, "a count").count())
    }
}
