//! From the bytes of a record to numbers in a row.

use crate::decode::{one_hot, write_finite};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result, nearest};
use crate::row::{RowMut, TensorMut};
use crate::schema::Affine;

use super::columns::{Inferred, Plan, Run, RunClasses, RunText, RunValues};
use super::fields::Fields;
use super::options::{Longer, Missing};
use super::value::{BeforeHalf, FieldElement, FieldNumber, Value, advice, is_too_large, of_whole, shown, with_element};

/// What is wrong with a record, and at which byte.
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) at: usize,
}

/// What ends a run: the record has no more fields, or one of them is bad.
enum Stop {
    Short,
    Bad(Fault),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Bad(Fault { error, at: 0 })
    }
}

impl Plan {
    /// Writes the fields of a record. `place` says, for each tensor of the plan, which tensor of the row it is and
    /// where its elements begin; `None` leaves it out.
    pub(crate) fn decode(
        &self,
        raw: &[u8],
        quoted: bool,
        buffer: &mut Vec<u8>,
        row: &mut RowMut<'_>,
        place: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> Result<(), Fault> {
        let mut fields = Fields::new(raw, quoted, &self.dialect);
        let (stop, tensor) = match self.decode_runs(&mut fields, buffer, row, place) {
            Ok(column) if column + fields.count() == self.names.len() => return Ok(()),
            Ok(_) => (Stop::Short, 0),
            Err(stopped) => stopped,
        };
        // If a record has another length, its values are in the wrong columns. The length is then the error to report,
        // not what follows from it.
        let found = Fields::new(raw, quoted, &self.dialect).count();
        match stop {
            Stop::Bad(fault) if found == self.names.len() => Err(self.explained(fault, tensor, raw, quoted)),
            _ => {
                let message = format!("expected {} fields, found {found}", self.names.len());
                Err(Fault { error: Error::new(ErrorKind::Data, message), at: 0 })
            }
        }
    }

    /// Adds the basis on which the type of `tensor` was inferred, if a value does not fit it.
    #[cold]
    fn explained(&self, Fault { error, at }: Fault, tensor: usize, raw: &[u8], quoted: bool) -> Fault {
        let Some(inferred) = self.inferred.iter().find(|inferred| inferred.tensor == self.tensors[tensor].name) else {
            return Fault { error, at };
        };
        let mut buffer = Vec::new();
        let field = Fields::new(&raw[at.min(raw.len())..], quoted, &self.dialect).next(&mut buffer);
        let is_missing = field.is_none_or(|field| self.missings.value(field) == Value::Missing);
        let Inferred { basis, settings, .. } = inferred;
        // The message has the setting for missing numbers already.
        let more = if is_missing && inferred.is_number { basis.clone() } else { format!("{basis}: {settings}") };
        Fault { error: error.and(&more), at }
    }

    /// Returns the number of fields that were passed; what ended it comes with the tensor that it ended.
    fn decode_runs(
        &self,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        row: &mut RowMut<'_>,
        place: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> Result<usize, (Stop, usize)> {
        let (mut begin, mut column) = ((fields.clone(), 0), 0);
        for run in &self.runs {
            let placed = place(run.tensor);
            if run.column < column {
                // The run before this one, which began no later, used them, too.
                (*fields, column) = begin.clone();
            }
            let short = |is_there: bool| if is_there { Ok(()) } else { Err((Stop::Short, run.tensor)) };
            (column..run.column).try_for_each(|_| short(fields.skip()))?;
            begin = (fields.clone(), run.column);
            column = run.column + run.count;
            let Some((index, base)) = placed else {
                (0..run.count).try_for_each(|_| short(fields.skip()))?;
                continue;
            };
            let tensor = row.tensor(index);
            let written = match &run.values {
                RunValues::Numbers(_) if matches!(tensor.dtype(), DType::F16 | DType::Bf16) => match tensor.affine() {
                    None => self.halves::<BeforeHalf>(run, fields, buffer, tensor, base),
                    Some(_) => self.halves::<f32>(run, fields, buffer, tensor, base),
                },
                RunValues::Numbers(_) => {
                    with_element!(tensor.dtype(), T => self.numbers::<T>(run, fields, buffer, tensor, base))
                }
                RunValues::Classes(classes) => {
                    with_element!(tensor.dtype(), T => self.classes_run::<T>(run, classes, fields, buffer, tensor, base))
                }
                RunValues::Text(text) => {
                    // Whoever wants the texts gets their lengths, too.
                    let lengths = place(text.lengths).unwrap_or_default();
                    self.texts(run, *text, fields, buffer, row, [(index, base), lengths])
                }
            };
            written.map_err(|stop| (stop, run.tensor))?;
        }
        Ok(column)
    }

    #[inline]
    fn numbers<T: FieldElement>(
        &self,
        run: &Run,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        mut tensor: TensorMut<'_>,
        base: usize,
    ) -> Result<(), Stop> {
        let (affine, shape) = (tensor.affine(), tensor.shape());
        let first = base + run.at;
        let target = &mut tensor.as_mut_slice::<T>()?[first..first + run.count];
        self.read_numbers(run, 0, T::DTYPE, fields, buffer, target)?;
        if let Some(affine) = affine {
            transform(target, first, shape, affine);
        }
        Ok(())
    }

    /// Numbers of 16 bits: the numbers of 32 bits, rounded after their transformation.
    fn halves<T: FieldNumber + Into<f32>>(
        &self,
        run: &Run,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        mut tensor: TensorMut<'_>,
        base: usize,
    ) -> Result<(), Stop> {
        let (mut read, mut numbers) = ([T::default(); 64], [0f32; 64]);
        for start in (0..run.count).step_by(numbers.len()) {
            let count = numbers.len().min(run.count - start);
            let begin = fields.clone();
            self.read_numbers(run, start, tensor.dtype(), fields, buffer, &mut read[..count])?;
            numbers.iter_mut().zip(read).for_each(|(number, read)| *number = read.into());
            let (first, numbers) = (base + run.at + start, &numbers[..count]);
            if write_finite(&mut tensor, first, NumberSlice::F32(numbers)).is_err() {
                let written = tensor.numbers().range(first..first + count);
                let is_lost = |nth: &usize| numbers[*nth].is_finite() && !written.at(*nth).is_finite();
                let nth = (0..count).find(is_lost).unwrap_or(0);
                return Err(self.beyond(begin, nth, run.column + start, tensor.dtype(), buffer));
            }
        }
        Ok(())
    }

    /// The error for field `nth` from here on, which is too large.
    #[cold]
    fn beyond(&self, mut fields: Fields<'_>, nth: usize, column: usize, dtype: DType, buffer: &mut Vec<u8>) -> Stop {
        for _ in 0..nth {
            fields.skip();
        }
        let at = fields.at();
        let field = fields.next(buffer).unwrap_or_default();
        Stop::Bad(Fault { error: too_large(field, dtype).at_column(&self.names[column + nth]), at })
    }

    /// Reads as many numbers as `target` holds, beginning with field `start` of the run.
    #[inline]
    fn read_numbers<T: FieldNumber>(
        &self,
        run: &Run,
        start: usize,
        dtype: DType,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        target: &mut [T],
    ) -> Result<(), Stop> {
        let mut done = 0;
        loop {
            if !self.missings.has_numbers() {
                done += fields.numbers(&mut target[done..]);
            }
            let Some(target) = target.get_mut(done) else { break };
            let at = fields.at();
            let field = fields.next(buffer).ok_or(Stop::Short)?;
            *target = self.number(field, dtype, run.missing()).map_err(|error| {
                Stop::Bad(Fault { error: error.at_column(&self.names[run.column + start + done]), at })
            })?;
            done += 1;
        }
        Ok(())
    }

    /// A field that is more than a number followed by a delimiter.
    fn number<T: FieldNumber>(&self, field: &[u8], dtype: DType, missing: Missing) -> Result<T> {
        let trimmed = field.trim_ascii();
        let number = T::exact(trimmed).or_else(|| if dtype.is_float() { None } else { of_whole(trimmed) });
        let certain =
            number.is_some_and(|number| !number.is_nan() && !number.is_infinite()) && !self.missings.has_numbers();
        if !certain && self.missings.contains(trimmed) {
            return match missing {
                Missing::Value(value) => T::from_f64(value),
                Missing::Nan if dtype.is_float() => T::from_f64(f64::NAN),
                _ => None,
            }
            .ok_or_else(|| missing_value(field, dtype, missing));
        }
        match number {
            Some(number) if is_too_large(number, trimmed) => Err(too_large(field, dtype)),
            number => number.ok_or_else(|| not_a_number(field, dtype)),
        }
    }

    fn classes_run<T: FieldElement>(
        &self,
        run: &Run,
        classes: &RunClasses,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        mut tensor: TensorMut<'_>,
        base: usize,
    ) -> Result<(), Stop> {
        let width = if classes.one_hot { classes.classes.count as usize } else { 1 };
        let (affine, shape) = (tensor.affine(), tensor.shape());
        let first = base + run.at;
        let target = &mut tensor.as_mut_slice::<T>()?[first..first + run.count * width];
        for (nth, target) in target.chunks_exact_mut(width).enumerate() {
            let at = fields.at();
            let field = fields.next(buffer).ok_or(Stop::Short)?;
            // Only a number stands for the same number as an index.
            let is_missing = |field: &[u8]| self.missings.has_numbers() && self.missings.contains(field);
            let Some(index) = classes.classes.index(field, is_missing) else {
                let code = classes.missing.filter(|_| self.missings.contains(field.trim_ascii()));
                if let Some(code) = code.and_then(T::from_i64) {
                    target[0] = code;
                    continue;
                }
                let error = self.no_class(field, classes).at_column(&self.names[run.column + nth]);
                return Err(Stop::Bad(Fault { error, at }));
            };
            if classes.one_hot {
                one_hot(target, Some(index as usize), [T::from_index(0), T::from_index(1)]);
            } else {
                target[0] = T::from_index(index);
            }
        }
        if let Some(affine) = affine {
            transform(target, first, shape, affine);
        }
        Ok(())
    }

    /// Copies texts, with zeros after them, and notes their lengths. `placed` says where both begin.
    fn texts(
        &self,
        run: &Run,
        text: RunText,
        fields: &mut Fields<'_>,
        buffer: &mut Vec<u8>,
        row: &mut RowMut<'_>,
        placed: [(usize, usize); 2],
    ) -> Result<(), Stop> {
        let [(tensor, base), (lengths, lengths_base)] = placed;
        for nth in 0..run.count {
            let at = fields.at();
            let field = fields.next(buffer).ok_or(Stop::Short)?;
            let kept = self
                .kept_text(field, text)
                .map_err(|error| Stop::Bad(Fault { error: error.at_column(&self.names[run.column + nth]), at }))?;
            let first = base + run.at + nth * text.max_len;
            let mut tensor = row.tensor(tensor);
            let (own, padding) = tensor.as_mut_slice::<u8>()?[first..first + text.max_len].split_at_mut(kept.len());
            own.copy_from_slice(kept);
            padding.fill(0);
            let element = lengths_base + run.at / text.max_len + nth;
            row.tensor(lengths).as_mut_slice::<i64>()?[element] = kept.len() as i64;
        }
        Ok(())
    }

    /// As much of a text as its tensor can hold.
    fn kept_text<'a>(&self, field: &'a [u8], text: RunText) -> Result<&'a [u8]> {
        let whole = std::str::from_utf8(field).map_err(|_| {
            Error::new(
                ErrorKind::Data,
                format!("expected text, found {}, which is not valid UTF-8; set encoding", shown(field)),
            )
        })?;
        if whole.len() <= text.max_len {
            return Ok(field);
        }
        match text.longer {
            Longer::Cut => {
                let end = (0..=text.max_len).rev().find(|end| whole.is_char_boundary(*end));
                Ok(&field[..end.unwrap_or(0)])
            }
            Longer::Error => {
                let message = format!(
                    "expected a text of at most {} bytes, found {} bytes, {}; raise max_len, or set `longer` to \"cut\"",
                    text.max_len,
                    field.len(),
                    shown(field)
                );
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }

    #[cold]
    fn no_class(&self, field: &[u8], classes: &RunClasses) -> Error {
        let names = &classes.classes.names;
        let is_missing = self.missings.contains(field.trim_ascii());
        let found = shown(field) + if is_missing { ", which stands for a missing value" } else { "" };
        let message = match std::str::from_utf8(field) {
            Err(_) => format!("expected a class, found {found}, which is not valid UTF-8; set encoding"),
            Ok(_) if names.is_empty() => {
                format!("expected a class index below {}, found {found}", classes.classes.count)
            }
            Ok(text) => {
                let hint = nearest(text, names.iter().map(String::as_str));
                let hint = hint.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                let more = if names.len() > 10 { ", ..." } else { "" };
                let listed: Vec<String> = names.iter().take(10).map(|name| shown(name.as_bytes())).collect();
                let listed = listed.join(", ");
                format!("expected one of {} classes ({listed}{more}), found {found}{hint}", names.len())
            }
        };
        Error::new(ErrorKind::Data, message)
    }
}

/// The error for a missing value.
#[cold]
fn missing_value(field: &[u8], dtype: DType, missing: Missing) -> Error {
    let advice = match missing {
        Missing::Nan => "an integer has no NaN: set `missing` to a value",
        _ if dtype.is_float() => "set `missing` to \"nan\" or to a value",
        _ => "set `missing` to a value",
    };
    let message = format!("expected {dtype}, found {}, which stands for a missing value; {advice}", shown(field));
    Error::new(ErrorKind::Data, message)
}

/// Transforms the elements from `first` on.
fn transform<T: FieldElement>(target: &mut [T], first: usize, shape: &[usize], affine: &Affine) {
    for (nth, target) in target.iter_mut().enumerate() {
        let entry = affine.entry(first + nth, shape);
        *target = target.scaled(affine, entry);
    }
}

#[cold]
fn too_large(field: &[u8], dtype: DType) -> Error {
    Error::new(ErrorKind::Data, format!("expected {dtype}, found {}, which is too large for it", shown(field)))
}

#[cold]
fn not_a_number(field: &[u8], dtype: DType) -> Error {
    let range = dtype.int_range().map(|(low, high)| format!(" ({low} to {high})")).unwrap_or_default();
    let text = if std::str::from_utf8(field).is_ok() { "" } else { " (not valid UTF-8)" };
    Error::new(ErrorKind::Data, format!("expected {dtype}{range}, found {}{text}{}", shown(field), advice(field)))
}
