//! Boxes and key points that are transformed like their picture.

use crate::decode::image::{Step, follow, header};
use crate::decode::{ImageOptions, number_of_text, write_numbers};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Longer;
use crate::read::fields::{BoxFormat, TargetFormat, Targets};
use crate::read::value::Value;
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, Varying, unexpected};
use super::list::each;

struct TargetsCodec {
    picture: ImageOptions,
    /// Format of the values.
    format: TargetFormat,
    /// Its format in the tensor.
    result_format: TargetFormat,
    most: usize,
    longer: Longer,
    min_size: f64,
    /// The place of its picture in the context's sizes.
    slot: usize,
    of_numbers: bool,
}

/// `sources` is how many fields there are: the numbers, and the picture's bytes, or its width and height.
pub(super) fn make(name: &str, role: Role, targets: &Targets, sources: usize, varying: &mut Varying) -> Result<Made> {
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message));
    let Some(picture) = &targets.picture else {
        return fault(match &targets.geometry {
            Some(geometry) => format!("there is no picture with geometry = {geometry:?}"),
            None => "set `geometry` to that of its picture".to_owned(),
        });
    };
    if sources < 2 {
        return fault("its picture is a file: name the two fields with its width and height in `size_from`".to_owned());
    }
    if !(targets.min_size >= 0.0 && targets.min_size.is_finite()) {
        return fault(format!("min_size = {}; it is 0 pixels or more", targets.min_size));
    }
    let codec = TargetsCodec {
        picture: picture.clone(),
        format: targets.format,
        result_format: targets.result_format.unwrap_or(targets.format),
        most: targets.most,
        longer: targets.longer,
        min_size: targets.min_size,
        slot: varying.slot()?,
        of_numbers: sources == 3,
    };
    let tensors = vec![
        TensorSpec::new(name, role, DType::F32, &[targets.most, targets.format.width()]),
        TensorSpec::new(format!("{name}_mask"), Role::Mask, DType::U8, &[targets.most]),
    ];
    Ok(Made { codec: Box::new(codec), tensors })
}

fn number_of(value: Value<'_>) -> Result<f64> {
    let number = match value {
        Value::I64(number) | Value::Time(number, _) => number as f64,
        Value::U64(number) => number as f64,
        Value::F64(number) => number,
        Value::Decimal(text) | Value::Text(text) => number_of_text(text.trim()).unwrap_or(f64::NAN),
        Value::Numbers(numbers) if numbers.len() == 1 => numbers.at(0),
        other => return Err(unexpected("a number", &other)),
    };
    // They are kept as f32.
    match (number as f32).is_finite() {
        true => Ok(number),
        false => Err(unexpected("a finite number", &value)),
    }
}

/// The error for what would move those that follow it to other places than their labels have.
#[cold]
fn empty_among_others() -> Error {
    Error::new(
        ErrorKind::Data,
        "an empty list among others, where each is a box or holds points; leave it out together with its label",
    )
}

impl TargetsCodec {
    fn is_of_points(&self) -> bool {
        matches!(self.format, TargetFormat::Points(_))
    }

    /// Checks that each list inside of another one holds whole boxes or points: otherwise numbers that are no part of one
    /// would move the others, as would a list without any. Returns whether the value holds nothing.
    fn check_lists(&self, value: Value<'_>, depth: usize) -> Result<bool> {
        let width = self.format.width();
        let check = |len: u64| {
            let is_whole = if self.is_of_points() { len.is_multiple_of(width as u64) } else { len == width as u64 };
            if is_whole || len == 0 {
                return Ok(len == 0);
            }
            let what = if self.is_of_points() { "points of" } else { "a box of" };
            Err(Error::new(ErrorKind::Data, format!("a list of {len} numbers, where {what} {width} was expected")))
        };
        match value {
            Value::Numbers(numbers) if depth > 0 => check(numbers.len() as u64),
            Value::List(list) => match list.shape() {
                Some([]) => Ok(false),
                Some([len]) => {
                    if depth > 0 {
                        check(*len)
                    } else {
                        Ok(*len == 0)
                    }
                }
                Some([outer @ .., 0]) if outer.iter().product::<u64>() > 1 => Err(empty_among_others()),
                Some([outer @ .., len]) => Ok(check(*len)? || outer.contains(&0)),
                None => {
                    let (mut numbers, mut lists, mut has_empty) = (0, 0u64, false);
                    list.each(&mut |value| match value {
                        Value::List(_) | Value::Numbers(_) => {
                            lists += 1;
                            has_empty |= self.check_lists(value, depth + 1)?;
                            Ok(())
                        }
                        _ => {
                            numbers += 1;
                            Ok(())
                        }
                    })?;
                    if has_empty && lists > 1 {
                        return Err(empty_among_others());
                    }
                    if depth > 0 && lists == 0 {
                        return check(numbers);
                    }
                    if depth > 0 {
                        check(numbers)?;
                    }
                    Ok(numbers == 0 && (lists == 0 || has_empty))
                }
            },
            _ => Ok(false),
        }
    }

    /// Writes the numbers as they are, followed by zeros.
    fn write_all(&self, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let (width, mut at) = (self.format.width(), 0);
        let mut tensor = row.tensor(0);
        let numbers = tensor.as_mut_slice::<f32>()?;
        numbers.fill(0.0);
        let mut add = |number: f64| {
            if let Some(into) = numbers.get_mut(at) {
                *into = number as f32;
            }
            at += 1;
        };
        if !matches!(value, Value::Missing) {
            self.check_lists(value, 0)?;
            each(value, &mut |value| {
                match value {
                    Value::Numbers(several) => {
                        for nth in 0..several.len() {
                            add(number_of(Value::F64(several.at(nth)))?);
                        }
                    }
                    value => add(number_of(value)?),
                }
                Ok(())
            })?;
        }
        let count = at / width;
        let what = if self.is_of_points() { "points" } else { "boxes" };
        if at % width != 0 {
            let message = format!("{at} numbers are not whole {what} of {width} numbers each");
            return Err(Error::new(ErrorKind::Data, message));
        }
        if count > self.most && self.longer == Longer::Error {
            let most = self.most;
            let message = format!("{count} {what}; at most {most} fit; raise that, or set `longer` to \"cut\"");
            return Err(Error::new(ErrorKind::Data, message));
        }
        let mut mask = row.tensor(1);
        let (present, absent) = mask.bytes_mut().split_at_mut(count.min(self.most));
        present.fill(1);
        absent.fill(0);
        Ok(())
    }

    /// Corners of a box in pixels, for a picture of this size, in any format; for a point, the point twice.
    fn corners(&self, numbers: &[f32], size: (f64, f64)) -> [f64; 4] {
        let (width, height) = if self.format.is_relative() { size } else { (1.0, 1.0) };
        let pixels = |at: usize| f64::from(numbers[at]) * if at.is_multiple_of(2) { width } else { height };
        let (a, b) = (pixels(0), pixels(1));
        let TargetFormat::Boxes(format) = self.format else { return [a, b, a, b] };
        let (c, d) = (pixels(2), pixels(3));
        match format {
            BoxFormat::Xyxy | BoxFormat::RelativeXyxy => [a, b, c, d],
            BoxFormat::Xywh | BoxFormat::RelativeXywh => [a, b, a + c, b + d],
            BoxFormat::Cxcywh | BoxFormat::RelativeCxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        }
    }

    /// The numbers that stand for a box or point in a picture of this size.
    fn formatted(&self, [left, top, right, bottom]: [f64; 4], size: (f64, f64)) -> [f64; 4] {
        let (width, height) = (right - left, bottom - top);
        let [a, b, c, d] = match self.result_format {
            TargetFormat::Boxes(BoxFormat::Xywh | BoxFormat::RelativeXywh) => [left, top, width, height],
            TargetFormat::Boxes(BoxFormat::Cxcywh | BoxFormat::RelativeCxcywh) => {
                [left + width / 2.0, top + height / 2.0, width, height]
            }
            TargetFormat::Boxes(BoxFormat::Xyxy | BoxFormat::RelativeXyxy) | TargetFormat::Points(_) => {
                [left, top, right, bottom]
            }
        };
        match self.result_format.is_relative() {
            true => [a / size.0, b / size.1, c / size.0, d / size.1],
            false => [a, b, c, d],
        }
    }

    /// A box or point after one step of augmentation; `None` if nothing is left of it.
    fn after(&self, now: [f64; 4], step: Step) -> Option<[f64; 4]> {
        match self.is_of_points() {
            true => step.point((now[0], now[1])).map(|(x, y)| [x, y, x, y]),
            false => step.enclosing(now),
        }
    }
}

impl Decode for TargetsCodec {
    fn write(&self, nth: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        if nth == 0 {
            return self.write_all(value, row);
        }
        let size = &mut context.sizes[self.slot];
        if self.of_numbers {
            let number = number_of(value)?;
            if !(1.0..=f64::from(u32::MAX)).contains(&number) {
                let message = format!("a picture's {} of {number}", if nth == 1 { "width" } else { "height" });
                return Err(Error::new(ErrorKind::Data, message));
            }
            *(if nth == 1 { &mut size.0 } else { &mut size.1 }) = number as u32;
            return Ok(());
        }
        let Value::Bytes(bytes) = value else {
            return Err(unexpected("the bytes of its picture", &value));
        };
        let found = header(bytes)?;
        found.check(self.picture.max_pixels)?;
        *size = found.upright_size();
        Ok(())
    }

    fn is_random(&self) -> bool {
        !self.picture.augment.is_empty()
    }

    fn is_unfinished(&self) -> bool {
        true
    }

    fn finish(&self, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let size = context.sizes[self.slot];
        let width = self.format.width();
        for nth in 0..self.most {
            if row.tensor(1).bytes_mut()[nth] == 0 {
                continue;
            }
            let mut tensor = row.tensor(0);
            let mut result = (f64::from(size.0), f64::from(size.1));
            let corners = self.corners(&tensor.as_mut_slice::<f32>()?[nth * width..][..width], result);
            let mut left = self.after(corners, Step { matrix: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], size: result });
            follow(&self.picture, context.key, size, &mut |step| {
                left = left.and_then(|now| self.after(now, step));
                result = step.size;
            });
            let is_large = |[left, top, right, bottom]: &[f64; 4]| {
                self.is_of_points() || (right - left >= self.min_size && bottom - top >= self.min_size)
            };
            let left = left.filter(is_large);
            match left.map(|corners| self.formatted(corners, result)) {
                Some(numbers) => write_numbers(&mut tensor, nth * width, NumberSlice::F64(&numbers[..width]))?,
                None => tensor.as_mut_slice::<f32>()?[nth * width..][..width].fill(0.0),
            }
            row.tensor(1).bytes_mut()[nth] = u8::from(left.is_some());
        }
        Ok(())
    }
}
