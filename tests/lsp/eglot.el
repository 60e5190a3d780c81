;;; A day in Emacs without a screen. INIT (the configuration to paste) and PROGRAM are set when this is loaded.

(require 'package)
(package-initialize)
(setq user-emacs-directory (file-name-as-directory (getenv "HOME")))
(unless (require 'eglot nil t) (kill-emacs 77)) ; nothing to try
(require 'flymake)
(load INIT nil t)
(setq eglot-confirm-server-initiated-edits nil)

(defun wait-for (what done)
  "Let messages come until DONE gives something; give that. What is WHAT is told where it does not come."
  (let ((end (+ (float-time) 300)) found)
    (while (and (not (setq found (funcall done))) (< (float-time) end))
      (accept-process-output nil 0.02))
    (or found (progn (message "%s did not come" what) (kill-emacs 1)))))

(defun expect (what found)
  (unless found (message "expected %s" what) (kill-emacs 1)))

(find-file PROGRAM)
(expect "the mode of .dir files" (eq major-mode 'distir-mode))
(expect "comments of `//'" (equal comment-start "// "))
(let ((eglot-sync-connect 300)) (apply #'eglot (eglot--guess-contact)))

(let ((wrong (wait-for "a diagnostic" (lambda () (flymake-start) (flymake-diagnostics)))))
  (expect "what is wrong" (string-match-p "Reul" (flymake-diagnostic-text (car wrong)))))

(goto-char (point-min))
(search-forward "Reul")
(replace-match "Relu")
(eglot--signal-textDocument/didChange) ; which waits for idle time, and without a screen there is none
(wait-for "a text without mistakes" (lambda () (flymake-start) (null (flymake-diagnostics))))

(goto-char (point-min))
(search-forward "%h")
(backward-char)
(let ((said (jsonrpc-request (eglot-current-server) :textDocument/hover (eglot--TextDocumentPositionParams))))
  (expect "a hover" (string-match-p "Float32" (format "%s" said))))
(eglot-rename "%hidden")
(goto-char (point-max))
(search-backward "  return")
(insert "  ")
(eglot-format-buffer)
(save-buffer)
(eglot-shutdown (eglot-current-server))
(kill-emacs 0)
