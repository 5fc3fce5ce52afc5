(* SPDX-License-Identifier: GPL-2.0 *)
(* C functions below OCaml code: with their own stack by caml_c_call, without by "noalloc". *)
open Effect
open Effect.Deep

type _ Effect.t += Ask : int -> int Effect.t

let rec formats depth n =
  if depth = 0 then begin
    let sum = ref 0 in
    for i = 1 to n do
      sum := !sum + String.length (Printf.sprintf "%.12g %d" (float_of_int i /. 7.) i)
    done;
    !sum
  end else 1 + formats (depth - 1) n

let rec hashes depth n =
  if depth = 0 then begin
    let sum = ref 0 in
    for i = 1 to n do
      sum := !sum + Hashtbl.hash (string_of_int i)
    done;
    !sum
  end else 1 + hashes (depth - 1) n

let compares n =
  let values = List.init n (fun i -> (i * 7919 mod 1009, string_of_float (float_of_int i))) in
  List.length (List.sort compare values)

let times n =
  let sum = ref 0. in
  for _ = 1 to n do
    sum := !sum +. Sys.time () +. Unix.gettimeofday ()
  done;
  int_of_float !sum

(* A fiber asks its parent, and what is called works in the fiber. *)
let fibers n =
  let rec inner i = if i = 0 then 0 else perform (Ask i) + formats 3 2 + inner (i - 1) in
  match_with inner n
    { retc = (fun x -> x); exnc = raise;
      effc = fun (type a) (eff : a Effect.t) ->
        match eff with
        | Ask i -> Some (fun (k : (a, _) continuation) -> continue k (i + formats 2 1))
        | _ -> None }

let () =
  let until = Unix.gettimeofday () +. float_of_string Sys.argv.(2) in
  let work = match Sys.argv.(1) with
    | "formats" -> fun () -> formats 5 100
    | "hashes" -> fun () -> hashes 5 100
    | "compares" -> fun () -> compares 200
    | "times" -> fun () -> times 100
    | "fibers" -> fun () -> fibers 50
    | _ -> exit 2 in
  let sum = ref 0 in
  while Unix.gettimeofday () < until do
    sum := !sum + work ()
  done;
  if !sum = 42 then print_endline "?"
